import type { HeldCredential } from '../../shared/binding/binding.ts';
import type { RecognisedAction } from '../recognise/recognition.ts';
import type { EnforceDeps } from './deps.ts';

/** An answer to an MCP server's question belongs to its session, like the handshake. */
export async function credentialFor(
  { binding, tool, insteadOf }: RecognisedAction,
  { credentials }: Pick<EnforceDeps, 'credentials'>,
): Promise<HeldCredential | undefined> {
  if (binding === undefined) return undefined;
  return insteadOf === undefined
    ? credentials.forCall(tool, binding)
    : credentials.forServer(binding);
}

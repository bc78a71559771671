import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import type { RecognisedAction } from '../recognise/recognition.ts';
import type { EnforceDeps } from './deps.ts';

type CredentialDeps = Pick<EnforceDeps, 'credentials' | 'replica' | 'identity'>;

/** An answer to an MCP server's question belongs to its session, like the handshake. */
export async function credentialFor(
  { binding, tool, insteadOf }: RecognisedAction,
  deps: CredentialDeps,
): Promise<HeldCredential | undefined> {
  if (binding === undefined) return undefined;
  return insteadOf === undefined
    ? deps.credentials.forCall(tool, binding)
    : credentialForServer(binding, deps);
}

/** The credential for what an MCP server is asked besides calls. */
export function credentialForServer(
  binding: Binding,
  { credentials, replica, identity }: CredentialDeps,
): Promise<HeldCredential | undefined> {
  return credentials.forServer(binding, replica.agent(identity.agentId)?.capabilities ?? []);
}

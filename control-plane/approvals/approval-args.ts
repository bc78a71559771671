import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/json.ts';
import type { SealedPlace, Services } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';

type Which = 'proposed' | 'effective';

/** What the agent asked for: the arguments, and what an MCP message carried beside them. */
interface Proposal {
  readonly args: JsonObject;
  readonly mcp?: JsonObject | undefined;
}

/** Where arguments of an approval are sealed. */
export function argumentsPlace(
  { tenantId, id }: Pick<Approval, 'tenantId' | 'id'>,
  which: Which,
): SealedPlace {
  return { tenantId, purpose: 'approval_args', id: `${id}:${which}`, version: 1 };
}

/**
 * Encrypts what a human must read to decide. An array holds arguments and MCP parts; an object,
 * as all approvals had it before there were such parts, holds arguments alone.
 */
export function sealProposal(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id'>,
  { args, mcp }: Proposal,
): string {
  const text = JSON.stringify(mcp === undefined ? args : [args, mcp]);
  return vault.seal(text, argumentsPlace(approval, 'proposed'));
}

/** Encrypts the arguments that may be performed after `modify`. */
export function sealEffectiveArgs(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id'>,
  args: JsonObject,
): string {
  return vault.seal(JSON.stringify(args), argumentsPlace(approval, 'effective'));
}

type Stored = Pick<Approval, 'tenantId' | 'id' | 'proposedArgs' | 'effectiveArgs'>;

/** Decrypts what the agent asked for; undefined when nothing is stored. */
export function openProposal(
  services: Pick<Services, 'vault'>,
  approval: Stored,
): Proposal | undefined {
  const stored = openStored(services, approval, 'proposed');
  if (stored === undefined) return undefined;
  if (isJsonObject(stored)) return { args: stored };
  const [args, mcp] = stored as unknown as readonly [JsonObject, JsonObject];
  return { args, mcp };
}

/** Decrypts the arguments that an approver put in place; undefined when there are none. */
export function openEffectiveArgs(
  services: Pick<Services, 'vault'>,
  approval: Stored,
): JsonObject | undefined {
  return openStored(services, approval, 'effective') as JsonObject | undefined;
}

function openStored(
  { vault }: Pick<Services, 'vault'>,
  approval: Stored,
  which: Which,
): JsonValue | undefined {
  const sealed = which === 'proposed' ? approval.proposedArgs : approval.effectiveArgs;
  if (sealed === null) return undefined;
  return JSON.parse(
    vault.open(sealed, argumentsPlace(approval, which)).toString('utf8'),
  ) as JsonValue;
}

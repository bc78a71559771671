import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import type { Services } from '../core/services.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { readTextColumn } from '../platform/store/read-column.ts';
import type { SealedPlace } from '../platform/vault/vault.ts';

type Which = 'proposed' | 'effective';

/** The call that the agent proposed: the arguments, and the other parts of an MCP message. */
interface Proposal {
  readonly args: JsonObject;
  readonly mcp?: JsonObject | undefined;
}

/** Returns the place to which the encryption binds the arguments of an approval. */
export function argumentsPlace(
  { tenantId, id }: Pick<Approval, 'tenantId' | 'id'>,
  which: Which,
): SealedPlace {
  return { tenantId, purpose: 'approval_args', id: `${id}:${which}`, version: 1 };
}

/**
 * Encrypts the proposed call for the deciders. The plaintext is the array `[args, mcp]`, or only
 * the object `args` if there are no MCP parts.
 */
export function sealProposal(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id'>,
  { args, mcp }: Proposal,
): string {
  const text = JSON.stringify(mcp === undefined ? args : [args, mcp]);
  return vault.seal(text, argumentsPlace(approval, 'proposed'));
}

/** Encrypts the arguments that an approver substituted with `modify`. */
export function sealEffectiveArgs(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id'>,
  args: JsonObject,
): string {
  return vault.seal(JSON.stringify(args), argumentsPlace(approval, 'effective'));
}

const objectForm = z.custom<JsonObject>(isJsonObject);
/** The arguments alone, or a pair: the arguments and the other parts of an MCP message. */
const proposalForm = z.union([objectForm, z.tuple([objectForm, objectForm])]);

type Stored = Pick<Approval, 'tenantId' | 'id' | 'proposedArgs' | 'effectiveArgs'>;

/** Decrypts the call that the agent proposed; undefined if nothing is stored. */
export function openProposal(
  services: Pick<Services, 'vault'>,
  approval: Stored,
): Proposal | undefined {
  const { proposedArgs: sealed } = approval;
  if (sealed === null) return undefined;
  const text = openText(services, sealed, argumentsPlace(approval, 'proposed'));
  const stored = readTextColumn(proposalForm, text, 'approval.proposed_args');
  return Array.isArray(stored) ? { args: stored[0], mcp: stored[1] } : { args: stored };
}

/** Decrypts the arguments that an approver substituted; undefined if there are none. */
export function openEffectiveArgs(
  services: Pick<Services, 'vault'>,
  approval: Stored,
): JsonObject | undefined {
  const { effectiveArgs: sealed } = approval;
  if (sealed === null) return undefined;
  const text = openText(services, sealed, argumentsPlace(approval, 'effective'));
  return readTextColumn(objectForm, text, 'approval.effective_args');
}

function openText({ vault }: Pick<Services, 'vault'>, sealed: string, place: SealedPlace): string {
  return vault.open(sealed, place).toString('utf8');
}

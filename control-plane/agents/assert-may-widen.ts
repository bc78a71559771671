import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { clampTools } from '../../shared/glob/glob.ts';
import { globsMayIntersect } from '../../shared/glob/glob-intersection.ts';
import type { Services } from '../core/services.ts';
import { boundTools } from '../credentials/held-credentials.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { SignedClient } from '../platform/signed-store/tables.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';

interface Widening {
  readonly name: string;
  /** Current agent; undefined for a new one. */
  readonly known: Verified<Agent> | undefined;
  readonly capabilities: readonly string[];
}

const stepsMax = 2_000_000;

/**
 * Applies to API callers that may not enrol sidecars. Throws `agent.widening_refused` if a gained
 * capability reaches a stored credential, or if an agent with sidecars, enrolment tokens or enrolment
 * rules gains any capability. Call it under the registry's lock, so that no token or rule is created
 * meanwhile.
 */
export async function assertMayWiden(
  services: Pick<Services, 'vault' | 'clock' | 'guard'>,
  tx: Transaction,
  { tenantId, permissions }: Caller,
  { name, known, capabilities }: Widening,
): Promise<void> {
  if (permissions.has('sidecar.enrol')) return;
  const gained = gainedBy(known?.capabilities ?? [], capabilities);
  if (gained.length === 0) return;
  if (known !== undefined && (await hasSidecars(tx, services, { tenantId, id: known.id }))) {
    throw refused(
      name,
      `gains "${gained[0]}" while it has sidecars, enrolment tokens or enrolment rules`,
    );
  }
  const budget = { steps: stepsMax };
  const credentials = await boundTools(services, tx, tenantId);
  for (const { name: credential, tools } of credentials) {
    const reaching = gained.find((one) => globsMayIntersect([one], tools, 'tool', budget));
    if (reaching !== undefined) {
      throw refused(name, `gains "${reaching}", which reaches the credential ${credential}`);
    }
  }
}

/** Returns the new capabilities that no earlier capability covers. */
function gainedBy(before: readonly string[], after: readonly string[]): readonly string[] {
  const former = new Set(before);
  const added = after.filter((one) => !former.has(one));
  const covered = new Set(clampTools(added, before));
  return added.filter((one) => !covered.has(one));
}

/**
 * Reads rules and tokens before sidecars, because a token consumed between the two reads appears as
 * a sidecar.
 */
async function hasSidecars(
  db: SignedClient,
  { clock }: Pick<Services, 'clock'>,
  { tenantId, id }: { readonly tenantId: string; readonly id: number },
): Promise<boolean> {
  const agentId = String(id);
  const expiresAt = { gt: new Date(clock.now()) };
  const live = { tenantId, agentId, usesLeft: { gt: 0 }, expiresAt };
  if ((await claimedRows(db, 'enrolment_rule').count({ tenantId, agentId })) > 0) return true;
  if ((await claimedRows(db, 'enrolment_token').count(live)) > 0) return true;
  return (await claimedRows(db, 'sidecar').count({ tenantId, agentId, revokedAt: null })) > 0;
}

function refused(name: string, what: string): GatewayError {
  return new GatewayError('agent.widening_refused', {
    message: `The agent ${name} ${what}; leave the capability out, or have an owner or admin (permission sidecar.enrol) register the agent.`,
  });
}

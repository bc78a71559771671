import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { isWaiting, queryIn } from '../integrity/active-versions.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { EnrolmentRule } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import type { Workload } from './verify-token.ts';

/** Types of the events that record each change of a rule. */
export const ruleEvents = {
  written: 'enrolment_rule.written',
  removed: 'enrolment_rule.removed',
} as const;

export function ruleChain(name: string): string {
  return `enrolment_rules:${name}`;
}

/**
 * Returns the rule for a workload, locked until the transaction ends, so that it is not changed
 * during an enrolment. Throws `workload.rule_missing` if there is none. Throws
 * `integrity.forged_row` for a row without a valid signature, and for a restored older row, which
 * is not the last one in the ledger.
 */
export async function currentRule(
  { guard, vault }: Pick<Services, 'guard' | 'vault'>,
  tx: Transaction,
  tenantId: string,
  { issuer: { issuer }, namespace, serviceAccount }: Workload,
): Promise<Verified<EnrolmentRule>> {
  const rules = signedRows({ db: tx, guard }, 'enrolment_rule');
  const where = { tenantId, issuer, namespace, serviceAccount };
  const [claimed] = await rules.findClaims(['name'], { where });
  if (claimed === undefined) throw missing({ namespace, serviceAccount });
  await rules.lock({ tenantId, name: claimed.name });
  // Reads the row again under the lock, because the rule may have changed.
  const { name } = claimed;
  const rule = await rules.findFirst({ where: { ...where, name } });
  if (rule === null) throw missing({ namespace, serviceAccount });
  const { eventId } = rule;
  const query = queryIn(tx);
  // Reads the outbox first, because the event may be sealed between the two reads.
  const position = Number.MAX_SAFE_INTEGER;
  if (await isWaiting(query, vault, { tenantId, eventId, position })) return rule;
  const [last] = await query<{ event_id: string }>(
    `select event_id from evidence_row
      where tenant_id = $1 and chain_id = $2 and type = any($3::text[])
        and source = 'control-plane' order by seq desc limit 1`,
    [tenantId, ruleChain(name), Object.values(ruleEvents)],
  );
  if (last?.event_id === eventId) return rule;
  throw guard.forged({ tenantId, table: 'enrolment_rule', key: name, found: eventId });
}

function missing(workload: Pick<Workload, 'namespace' | 'serviceAccount'>): GatewayError {
  const { namespace, serviceAccount } = workload;
  return new GatewayError('workload.rule_missing', {
    message: `No enrolment rule names the service account ${namespace}/${serviceAccount}; an owner or admin writes one with PUT /v1/sidecars/enrolment-rules/{name}.`,
  });
}

import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Where } from '../platform/signed-store/tables.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { EnrolmentRule } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { retireSidecar } from '../sidecars/retire-sidecar.ts';

/** Limits a transaction to a second or two. */
const batchSize = 50;

/** Locks the rules of a tenant against changes until the transaction ends. */
export function lockRules(tx: Transaction, tenantId: string): Promise<void> {
  return lockFor(tx, tenantId, 'enrolment rules');
}

/** Counts the sidecars that no rule of the tenant would enrol with their current terms. */
export async function countOrphans(services: Services, tenantId: string): Promise<number> {
  const rules = await signedRows(services, 'enrolment_rule').findValid({ where: { tenantId } });
  return signedRows(services, 'sidecar').count(orphans(tenantId, rules));
}

/**
 * Revokes the sidecars of rules that were removed or changed, in batches, until `deadlineMs` on the
 * monotonic clock. One transaction for a large fleet would exceed the database's time limit. A
 * background round revokes the sidecars that remain after the deadline.
 */
export async function revokeOrphans(
  services: Services,
  tenantId: string,
  deadlineMs = Number.POSITIVE_INFINITY,
): Promise<void> {
  while (services.clock.monotonic() < deadlineMs) {
    if ((await countOrphans(services, tenantId)) === 0) return;
    await revokeBatch(services, tenantId);
  }
}

async function revokeBatch(services: Services, tenantId: string): Promise<void> {
  const at = new Date(services.clock.now());
  await commitChange(services, tenantId, async (tx, notes) => {
    // The lock keeps the rules unchanged, so a concurrent enrolment follows the rules that are read
    // here.
    await lockRules(tx, tenantId);
    const rules = await notes.rows('enrolment_rule').findValid({ where: { tenantId } });
    const rows = await notes.rows('sidecar').findUnverified({
      where: orphans(tenantId, rules),
      orderBy: { id: 'asc' },
      take: batchSize,
    });
    for (const row of rows) {
      await retireSidecar(notes, row, { at, reason: 'rule', by: 'control-plane' });
    }
  });
}

function orphans(tenantId: string, rules: readonly Verified<EnrolmentRule>[]): Where<'sidecar'> {
  const covered = rules.map((rule) => ({
    ruleName: rule.name,
    issuer: rule.issuer,
    namespace: rule.namespace,
    serviceAccount: rule.serviceAccount,
    agentId: rule.agentId,
    userId: rule.userId,
    environment: rule.environment,
  }));
  const live = { tenantId, ruleName: { not: null }, revokedAt: null };
  return covered.length === 0 ? live : { ...live, NOT: { OR: covered } };
}

import type { z } from 'zod';
import type {
  EnrolmentRuleRecord,
  putEnrolmentRule as putOperation,
} from '../../shared/contract/enrolment-rules.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { EnrolmentRule } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { assertMayGrant } from '../sidecars/assert-may-grant.ts';
import { assertAgent } from '../sidecars/enrolment-token.ts';
import { ruleChain, ruleEvents } from './current-rule.ts';
import { countOrphans, lockRules, revokeOrphans } from './revoke-orphans.ts';

type Fields = z.output<NonNullable<(typeof putOperation)['body']>>;

interface StoredRule {
  readonly rule: EnrolmentRuleRecord;
  /** Capabilities of the agent when the rule is stored. */
  readonly capabilities: readonly string[];
  readonly revokedSidecars: number;
}

/** Stores a rule as a whole. Then revokes the sidecars that would now enrol under other terms. */
export async function putEnrolmentRule(
  services: Services,
  caller: Caller,
  { name, fields }: { readonly name: string; readonly fields: Fields },
): Promise<StoredRule> {
  const { config, clock } = services;
  const { tenantId, principal, role } = caller;
  const { issuer, audience, namespace, environment } = fields;
  const [agentId, userId] = [fields.agent_id, fields.user_id];
  assertOwnAgent(caller, agentId);
  if (!config.oidcIssuers.some((one) => one.issuer === issuer)) {
    throw new GatewayError('enrolment_rule.issuer_unknown');
  }
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    // Prevents a concurrent widening of the agent's capabilities.
    await lockFor(tx, tenantId, 'agents');
    const { capabilities } = await assertAgent(services, tx, tenantId, agentId);
    await assertMayGrant(services, tx, caller, { agentId, userId, environment });
    const former = await lockedRule(tx, notes, { tenantId, name });
    if (former !== undefined) assertOwnAgent(caller, former.agentId);
    const terms = {
      issuer,
      audience,
      namespace,
      serviceAccount: fields.service_account,
      agentId,
      userId,
      environment,
    };
    await refuseOverlap(notes, { tenantId, name }, terms);
    const { id: eventId } = await notes.event({
      type: ruleEvents.written,
      chainId: ruleChain(name),
      agentId,
      userId,
      data: { by: principal, rule: { ...fields }, capabilities: [...capabilities] },
    });
    const written = { writtenBy: principal, writerRole: role, eventId };
    const writtenAt = new Date(clock.now());
    const rows = notes.rows('enrolment_rule');
    const row = await rows.put({ tenantId, name, ...terms, ...written, writtenAt });
    return { rule: ruleRecordOf(row), capabilities };
  });
  return { ...result, revokedSidecars: await revokeFormer(services, tenantId) };
}

/** Deletes a rule, then revokes the sidecars that it enrolled; returns their number. */
export async function deleteEnrolmentRule(
  services: Services,
  caller: Caller,
  name: string,
): Promise<number> {
  const { tenantId, principal } = caller;
  await commitChange(services, tenantId, async (tx, notes) => {
    const former = await lockedRule(tx, notes, { tenantId, name });
    if (former === undefined) throw new GatewayError('enrolment_rule.not_found');
    assertOwnAgent(caller, former.agentId);
    await notes.rows('enrolment_rule').remove({ tenantId, name });
    await notes.event({
      type: ruleEvents.removed,
      chainId: ruleChain(name),
      agentId: former.agentId,
      data: { by: principal },
    });
  });
  return revokeFormer(services, tenantId);
}

/**
 * Maximum time that a request spends on revocations; a background round completes those of a larger
 * fleet.
 */
const revokingMs = 10_000;

/** Revokes the sidecars of former rules within this time. Returns the number of all sidecars to revoke. */
async function revokeFormer(services: Services, tenantId: string): Promise<number> {
  const count = await countOrphans(services, tenantId);
  await revokeOrphans(services, tenantId, services.clock.monotonic() + revokingMs);
  return count;
}

/** Returns all rules of the tenant, sorted by name, without forged ones. */
export async function listEnrolmentRules(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly EnrolmentRuleRecord[]> {
  const rules = signedRows(services, 'enrolment_rule');
  const rows = await rules.findValid({ where: { tenantId }, orderBy: { name: 'asc' } });
  return rows.map(ruleRecordOf);
}

export async function getEnrolmentRule(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
  name: string,
): Promise<EnrolmentRuleRecord> {
  const rules = signedRows(services, 'enrolment_rule');
  const row = await rules.findUnique({ where: { tenantId_name: { tenantId, name } } });
  if (row === null) throw new GatewayError('enrolment_rule.not_found');
  return ruleRecordOf(row);
}

interface RuleKey {
  readonly tenantId: string;
  readonly name: string;
}

type Terms = Pick<
  EnrolmentRule,
  'issuer' | 'audience' | 'namespace' | 'serviceAccount' | 'agentId' | 'userId' | 'environment'
>;

/**
 * Locks the rules of the tenant against other writers, and this row against enrolments. The row may
 * be forged, because it is replaced or deleted as a whole.
 */
async function lockedRule(
  tx: Transaction,
  notes: ChangeNotes,
  key: RuleKey,
): Promise<EnrolmentRule | undefined> {
  await lockRules(tx, key.tenantId);
  const rules = notes.rows('enrolment_rule');
  await rules.lock(key);
  const row = await rules.findUniqueUnverified({ where: { tenantId_name: key } });
  return row === null ? undefined : claimsOf(row);
}

async function refuseOverlap(
  notes: ChangeNotes,
  { tenantId, name }: RuleKey,
  { issuer, namespace, serviceAccount }: Terms,
): Promise<void> {
  const [other] = await notes.rows('enrolment_rule').findClaims(['name'], {
    where: { tenantId, issuer, namespace, serviceAccount, name: { not: name } },
  });
  if (other === undefined) return;
  throw new GatewayError('enrolment_rule.overlap', {
    message: `The enrolment rule ${other.name} already names ${namespace}/${serviceAccount} of this issuer; change or delete it.`,
    details: { rule: other.name },
  });
}

function ruleRecordOf(row: Verified<EnrolmentRule>): EnrolmentRuleRecord {
  return {
    name: row.name,
    issuer: row.issuer,
    audience: row.audience,
    namespace: row.namespace,
    service_account: row.serviceAccount,
    agent_id: row.agentId,
    user_id: row.userId,
    environment: row.environment as Environment,
    written_by: row.writtenBy,
    written_at: row.writtenAt.toISOString(),
  };
}

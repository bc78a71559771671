import { z } from 'zod';
import { eventHash } from '../../shared/ledger/canonical.ts';
import { openStates } from '../approvals/open-states.ts';
import type { Services } from '../core/services.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { type Control, findingOn, insufficient } from './control.ts';

const decidedMax = 1_000;
/** Grace period for expiry and sealing. */
const graceMs = 60_000;

/**
 * CC-2: humans decide in time and never on their own requests, and the ledger proves each decision.
 */
export const oversightControl: Control = {
  id: 'CC-2',
  title: 'Human oversight works',
  frameworks: { soc2: ['CC6.3'], eu_ai_act: ['14'], nist_ai_rmf: ['MANAGE 2.4'] },
  async assess(services, tenantId) {
    const { open, overdue } = await waiting(services, tenantId);
    const decided = await readDecided(services, tenantId);
    const idsOf = (isWrong: (one: Decided) => boolean) =>
      decided.filter(isWrong).map(({ id }) => id);
    const findings = [
      ...findingOn(overdue, {
        reason: 'approval_overdue',
        message: 'Approvals are overdue and did not expire.',
        nextStep:
          'POST /v1/approvals/expire; check why the expiry sweep of the control plane does not run.',
      }),
      ...findingOn(idsOf(isUnproven), {
        reason: 'decision_not_in_ledger',
        message: 'Approvals are decided in the table without an event in the ledger.',
        nextStep:
          'Compare them with their approval.decided events, and check who can write to the database.',
      }),
      ...findingOn(idsOf(isOwn), {
        reason: 'decided_by_requester',
        message: 'Approvals were decided by their requesters.',
        nextStep: 'Revoke these grants: DELETE /v1/approvals/{id}/grant.',
      }),
      ...findingOn(idsOf(isShortOfVotes), {
        reason: 'quorum_unmet',
        message: 'Approvals were granted by fewer people than their quorum.',
        nextStep: 'Revoke these grants: DELETE /v1/approvals/{id}/grant.',
      }),
      ...(decided.length > 0 ? [] : [nothingDecided]),
    ];
    const evidence = {
      open,
      overdue: overdue.length,
      decided: decided.length,
      evidence_event_ids: decided.slice(0, 5).flatMap(({ event_id }) => event_id ?? []),
    };
    return { evidence, findings };
  },
};

const nothingDecided = insufficient(
  'No human has decided anything yet.',
  'Publish a rule with the decision require_approval, and decide one request.',
);

async function waiting({ db, clock }: Services, tenantId: string) {
  const isOpen = { tenantId, status: { in: openStates } };
  const late = new Date(clock.now() - graceMs);
  const approvals = claimedRows(db, 'approval');
  const overdue = await approvals.findClaims(['id'], {
    where: { ...isOpen, expiresAt: { lt: late } },
    orderBy: { id: 'asc' },
  });
  return { open: await approvals.count(isOpen), overdue: overdue.map(({ id }) => id) };
}

interface Decided {
  readonly id: number;
  readonly status: string;
  readonly user_id: string;
  readonly agent_id: string;
  readonly decided_by: string | null;
  readonly quorum: number;
  readonly event_id: string | null;
  readonly event_hash: string | null;
  /** Previous hash in the ledger row that has both `event_id` and `event_hash`. */
  readonly prev_hash: string;
  readonly canonical: string | null;
  readonly voters: number;
}

/**
 * Returns the newest decided approvals, each with its ledger row and the number of its approvers.
 */
async function readDecided(
  { pool, clock }: Services,
  tenantId: string,
): Promise<readonly Decided[]> {
  const settled = new Date(clock.now() - graceMs);
  const { rows } = await pool.query<Decided>(statement, [tenantId, settled]);
  return rows;
}

const statement = `
SELECT decided.*, row.canonical, row.prev_hash,
       (SELECT count(DISTINCT principal)::int FROM approval_vote AS vote
         WHERE vote.tenant_id = $1 AND vote.approval_id = decided.id
           AND vote.action IN ('approve', 'modify')) AS voters
  FROM (SELECT id, status, user_id, agent_id, decided_by, quorum, event_id, event_hash
          FROM approval
         WHERE tenant_id = $1 AND status IN ('approved', 'modified', 'denied')
           -- Its hash is settled once its event is sealed.
           AND (event_hash IS NOT NULL OR coalesce(decided_at, '-infinity') < $2)
         ORDER BY id DESC LIMIT ${decidedMax}) AS decided
  LEFT JOIN evidence_row AS row
    ON row.tenant_id = $1 AND row.event_id = decided.event_id
   AND row.event_hash = decided.event_hash
 ORDER BY decided.id DESC`;

const decidedEvent = z.object({
  type: z.literal('approval.decided'),
  source: z.literal('control-plane'),
  user_id: z.string().optional(),
  data: z.object({ approval_id: z.number(), by: z.string(), status: z.string() }),
});

function isUnproven(approval: Decided): boolean {
  const { canonical, prev_hash: before, event_hash: hash } = approval;
  if (canonical === null || eventHash(before, canonical) !== hash) return true;
  const parsed = decidedEvent.safeParse(JSON.parse(canonical));
  if (!parsed.success) return true;
  const { approval_id, by, status } = parsed.data.data;
  const isSame = approval_id === approval.id && status === approval.status;
  return !isSame || by !== approval.decided_by || parsed.data.user_id !== approval.user_id;
}

function isOwn({ decided_by, user_id, agent_id }: Decided): boolean {
  const requesters = [user_id, agent_id, `agent:${agent_id}`].map(folded);
  return decided_by !== null && requesters.includes(folded(decided_by));
}

function folded(name: string): string {
  return name.normalize('NFKC').trim().toLowerCase();
}

function isShortOfVotes({ status, quorum, voters }: Decided): boolean {
  return status !== 'denied' && voters < quorum;
}

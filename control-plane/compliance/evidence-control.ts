import type { JsonObject } from '../../shared/base/json.ts';
import type { Services } from '../core/services.ts';
import { newestCheckpoint } from '../ledger/tree/checkpoint.ts';
import { type Control, type Finding, insufficient } from './control.ts';
import { ledgerState } from './ledger-state.ts';

const stuckMs = 15 * 60_000;

/** CC-3: the ledger passes verification, and no event has waited too long to be sealed. */
export const evidenceControl: Control = {
  id: 'CC-3',
  title: 'Evidence is intact',
  frameworks: {
    soc2: ['CC7.2', 'CC7.3'],
    eu_ai_act: ['12'],
    iso_42001: ['A.6.2.8'],
  },
  async assess(services, tenantId) {
    const ledger = await ledgerState(services, tenantId);
    const waiting = await waitingOutside(services, tenantId);
    const findings: Finding[] = [...ledger.findings];
    if (waiting.stuck > 0) findings.push(stuck(waiting.stuck));
    if (ledger.length === 0) findings.push(emptyLedger);
    const evidence: JsonObject = {
      ...ledger.evidence,
      checkpoint: await checkpointOf(services, tenantId),
      outside: waiting.outside,
      dead_lettered: waiting.deadLettered,
      evidence_event_ids: await incidentIds(services, tenantId),
    };
    return { evidence, findings };
  },
};

const emptyLedger = insufficient(
  'The ledger is empty.',
  'Create a policy or make a call; the ledger records every decision and change.',
);

function stuck(count: number): Finding {
  return {
    reason: 'sealing_stuck',
    message: `${count} event${count === 1 ? ' waits' : 's wait'} to be sealed for more than 15 minutes.`,
    nextStep: 'Read why sealing fails in the log of the control plane; waiting events are retried.',
  };
}

/**
 * Returns the newest stored checkpoint. Throws if no key of the tenant signed it; the control then
 * fails.
 */
async function checkpointOf(services: Services, tenantId: string): Promise<JsonObject | null> {
  const newest = await newestCheckpoint(services, tenantId);
  return newest === undefined ? null : { size: newest.size, root: newest.root.toString('hex') };
}

interface Outside {
  readonly outside: number;
  readonly deadLettered: number;
  readonly stuck: number;
}

async function waitingOutside({ pool, clock }: Services, tenantId: string): Promise<Outside> {
  const { rows } = await pool.query<[number, number, number]>({
    text: `SELECT count(*)::int, count(*) FILTER (WHERE dead_lettered)::int,
                  count(*) FILTER (WHERE created_at < $2)::int
             FROM event_outbox WHERE tenant_id = $1`,
    values: [tenantId, new Date(clock.now() - stuckMs)],
    rowMode: 'array',
  });
  const [outside = 0, deadLettered = 0, late = 0] = rows[0] ?? [];
  return { outside, deadLettered, stuck: late };
}

/** Returns the ids of the newest failed verifications that are recorded in the ledger. */
async function incidentIds({ pool }: Services, tenantId: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ event_id: string }>(
    `SELECT event_id FROM evidence_row WHERE tenant_id = $1 AND type = 'chain_verification_failed'
      ORDER BY position DESC LIMIT 5`,
    [tenantId],
  );
  return rows.map(({ event_id }) => event_id);
}

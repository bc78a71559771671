import { z } from 'zod';
import { modes } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import { killSwitchQuery, killSwitchRecordOf } from '../kill-switches/list-kill-switches.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import { type Assessment, type Control, type Finding, findingOn, insufficient } from './control.ts';

const dayMs = 86_400_000;
/** Minimum retention: the six months that article 26(6) of the EU AI Act requires. */
const retentionDays = 183;

/** CC-6: notifications are delivered, evidence is retained, and kill switches can be enforced. */
export const monitoringControl: Control = {
  id: 'CC-6',
  title: 'Monitoring and retention',
  frameworks: {
    soc2: ['CC7.1', 'CC7.4'],
    eu_ai_act: ['19', '26(6)'],
    nist_ai_rmf: ['MEASURE'],
  },
  async assess(services, tenantId) {
    const parts = [
      await assessDeliveries(services, tenantId),
      await assessRetention(services, tenantId),
      await assessKillSwitches(services, tenantId),
    ];
    return {
      evidence: Object.assign({}, ...parts.map(({ evidence }) => evidence)),
      findings: parts.flatMap(({ findings }) => findings),
    };
  },
};

interface DeliveryRow {
  readonly active: number;
  readonly delivered_at: Date | null;
  readonly dead: readonly string[] | null;
}

/** Counts deliveries to channels and sinks that are active now. */
const deliveryStatement = `
WITH channel AS (SELECT channel FROM install WHERE tenant_id = $1 AND status = 'active'),
     target AS (SELECT delivered_at FROM sink WHERE tenant_id = $1 AND active)
SELECT ((SELECT count(*) FROM channel) + (SELECT count(*) FROM target))::int AS active,
       greatest((SELECT max(delivered_at) FROM delivery
                  WHERE tenant_id = $1 AND status = 'delivered'
                    AND channel IN (SELECT channel FROM channel)),
                (SELECT max(delivered_at) FROM target)) AS delivered_at,
       (SELECT array_agg(id ORDER BY id) FROM delivery
         WHERE tenant_id = $1 AND status = 'dead') AS dead`;

async function assessDeliveries({ pool, clock }: Services, tenantId: string): Promise<Assessment> {
  const { rows } = await pool.query<DeliveryRow>(deliveryStatement, [tenantId]);
  const { active = 0, delivered_at: last = null, dead = null } = rows[0] ?? {};
  const isFresh = last !== null && last.getTime() > clock.now() - dayMs;
  const findings = [
    ...(isFresh ? [] : [noDelivery(active)]),
    ...findingOn(dead ?? [], {
      reason: 'dead_deliveries',
      message: 'Messages could not be delivered and are not retried.',
      nextStep:
        'POST /v1/integrations/deliveries/drain with their replay_id, once they can arrive.',
    }),
  ];
  const evidence = {
    active_channels: active,
    last_delivered_at: last?.toISOString() ?? null,
    dead_deliveries: dead?.length ?? 0,
  };
  return { evidence, findings };
}

function noDelivery(active: number): Finding {
  return {
    reason: 'no_delivery',
    message:
      active === 0
        ? 'No notification channel is installed.'
        : 'No message reached an active channel within 24 hours.',
    nextStep:
      active === 0
        ? 'Install a webhook: PUT /v1/integrations/webhook.'
        : 'GET /v1/integrations/deliveries shows the status of the messages.',
  };
}

interface OldestRow {
  readonly position: string;
  readonly sealed_at: Date;
}

async function assessRetention({ pool, clock }: Services, tenantId: string): Promise<Assessment> {
  const { rows } = await pool.query<OldestRow>(
    `SELECT position, sealed_at FROM evidence_row WHERE tenant_id = $1
      ORDER BY position LIMIT 1`,
    [tenantId],
  );
  const [oldest] = rows;
  if (oldest === undefined) {
    const nextStep =
      'Create a policy or make a call; the ledger records every decision and change.';
    return { evidence: {}, findings: [insufficient('There is no evidence yet.', nextStep)] };
  }
  const days = Math.floor((clock.now() - oldest.sealed_at.getTime()) / dayMs);
  // A ledger that still has its first row, position 1, was never trimmed.
  const isKept = oldest.position === '1' || days >= retentionDays;
  const evidence = {
    oldest_position: Number(oldest.position),
    oldest_sealed_at: oldest.sealed_at.toISOString(),
    retained_days: days,
  };
  return { evidence, findings: isKept ? [] : [trimmed(days)] };
}

function trimmed(days: number): Finding {
  return {
    reason: 'evidence_trimmed',
    message: `Evidence older than ${days} days was removed; at least ${retentionDays} days must be retained.`,
    nextStep: 'Restore the ledger from a backup, and check who can delete from it.',
  };
}

const readable = z.union([
  z.object({ kind: z.literal('block_tool'), tool: z.string() }),
  z.object({ kind: z.literal('block_agent'), agent_id: z.string() }),
  z.object({ kind: z.literal('force_mode'), mode: z.enum(modes) }),
]);

async function assessKillSwitches(services: Services, tenantId: string): Promise<Assessment> {
  const nowMs = services.clock.now();
  const rows = signedRows(services, 'kill_switch');
  const query = killSwitchQuery(nowMs, { tenantId, status: 'armed', limit: 1_000 });
  const armed = await rows.findUnverified(query);
  const readableIds = rows
    .valid(armed)
    .filter((row) => readable.safeParse(killSwitchRecordOf(row, nowMs)).success)
    .map(({ id }) => id);
  const unreadable = armed.map((row) => claimsOf(row).id).filter((id) => !readableIds.includes(id));
  return {
    evidence: { kill_switches_armed: armed.length },
    findings: findingOn(unreadable, {
      reason: 'kill_switches_unreadable',
      message: 'Stored kill switches cannot be read, so they cannot be enforced.',
      nextStep: 'Disarm them with DELETE /v1/runtime/kill-switches/{id}, and arm them again.',
    }),
  };
}

import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import { gauge } from '../../shared/base/observed-metric.ts';
import type { Services } from '../core/services.ts';

interface Waiting {
  readonly approvals: number;
  readonly approval_age: number;
  readonly outbox: number;
  readonly outbox_age: number;
  readonly unsigned_age: number;
  readonly sidecars: number;
  readonly silent: number;
  readonly dead_letters: number;
  readonly failing: number;
  readonly lost: number;
  readonly verification_age: number;
}

const described: Readonly<Record<keyof Waiting, readonly [name: string, help: string]>> = {
  approvals: ['sallyport_approvals_pending', 'Approvals that wait for a human'],
  approval_age: [
    'sallyport_approvals_oldest_pending_age_seconds',
    'How long the oldest of them has waited',
  ],
  outbox: ['sallyport_outbox_events', 'Events that wait in the outbox to be sealed'],
  outbox_age: ['sallyport_outbox_oldest_age_seconds', 'How long the oldest of them has waited'],
  unsigned_age: [
    'sallyport_checkpoint_oldest_unsigned_age_seconds',
    'Age of the oldest newest checkpoint of a ledger that has grown since',
  ],
  sidecars: ['sallyport_sidecars_reporting', 'Sidecars seen within the last minute'],
  silent: [
    'sallyport_sidecars_silent',
    'Sidecars seen within the last day, and not within the last minute',
  ],
  dead_letters: [
    'sallyport_dead_letters',
    'Events in the outbox whose sealing failed and is retried',
  ],
  failing: ['sallyport_ledgers_failing', 'Tenants whose last ledger verification failed'],
  lost: [
    'sallyport_ledgers_rolled_back',
    'Tenants whose ledger lacks events that it acknowledged to a sidecar, without an accepted loss',
  ],
  verification_age: [
    'sallyport_ledger_verification_age_seconds',
    'Age of the oldest last verification of any ledger',
  ],
};

const cacheMs = 5_000;
const patienceMs = 2_000;

/** Creates gauges for the control plane's stored state and queues, in total for all tenants. */
export function createStateMetrics(
  registry: Registry,
  services: Pick<Services, 'pool' | 'bus' | 'clock' | 'ledger'>,
  version: string,
): void {
  const state = cached(services);
  gauge(registry, { name: 'sallyport_bus_up', help: '1 while the sync bus answers' }, async () =>
    Number((await within(services.bus.ping().then(() => true))) ?? false),
  );
  gauge(
    registry,
    { name: 'sallyport_database_up', help: '1 while the database answers' },
    async () => Number((await state()) !== undefined),
  );
  gauge(
    registry,
    {
      name: 'sallyport_dead_letters_unkept',
      help: 'Dead letters in the memory of this process, not stored in the database yet',
    },
    async () => services.ledger.unstoredCount,
  );
  for (const [column, [name, help]] of Object.entries(described)) {
    // The value is NaN while the database is unavailable, so that no alert fires or resolves.
    gauge(registry, { name, help }, async () => (await state())?.[column as keyof Waiting] ?? NaN);
  }
  new Gauge({
    name: 'sallyport_build_info',
    help: 'Version of Sallyport and Node; always 1',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version, node: process.version }, 1);
}

/**
 * Runs one query for all gauges, at most once every few seconds, independent of the number of
 * scrapers.
 */
function cached({ pool, clock }: Pick<Services, 'pool' | 'clock'>) {
  let asked: Promise<Waiting | undefined> | undefined;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = clock.monotonic();
    if (asked === undefined || nowMs - askedAtMs > cacheMs) {
      askedAtMs = nowMs;
      asked = within(pool.query<Waiting>(question).then(({ rows }) => rows[0]));
    }
    return asked;
  };
}

const question = `
  SELECT a.approvals, a.approval_age, o.outbox, o.outbox_age, c.unsigned_age, s.sidecars, s.silent,
         o.dead_letters, v.failing, v.lost, v.verification_age
    FROM (SELECT count(*)::float8 AS approvals,
                 coalesce(extract(epoch FROM now() - min(requested_at)), 0)::float8 AS approval_age
            FROM approval WHERE status = 'pending' AND expires_at > now()) a,
         (SELECT count(*)::float8 AS outbox,
                 coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS outbox_age,
                 (count(*) FILTER (WHERE dead_lettered))::float8 AS dead_letters
            FROM event_outbox) o,
         (SELECT coalesce(extract(epoch FROM now() - min(newest.created_at)), 0)::float8 AS unsigned_age
            FROM evidence_head AS head CROSS JOIN LATERAL (
              SELECT size, created_at FROM evidence_checkpoint AS made
               WHERE made.tenant_id = head.tenant_id ORDER BY size DESC LIMIT 1) AS newest
           WHERE head.position > newest.size) c,
         (SELECT count(*) FILTER (WHERE last_seen_at > now() - interval '1 minute')::float8 AS sidecars,
                 count(*) FILTER (WHERE last_seen_at <= now() - interval '1 minute')::float8 AS silent
            FROM sidecar
           WHERE revoked_at IS NULL AND last_seen_at > now() - interval '1 day') s,
         (SELECT (count(*) FILTER (WHERE problem IS NOT NULL))::float8 AS failing,
                 (count(*) FILTER (WHERE lost_position > accepted_position))::float8 AS lost,
                 coalesce(extract(epoch FROM now() - min(verified_at)
                   FILTER (WHERE verified_at > 'epoch')), 0)::float8 AS verification_age
            FROM evidence_verification) v`;

/** Returns undefined if the query fails or takes longer than a scrape may wait. */
async function within<Value>(asked: Promise<Value>): Promise<Value | undefined> {
  const patience = new AbortController();
  const { signal } = patience;
  const late = delay(patienceMs, undefined, { signal }).catch(() => undefined);
  const answer = await Promise.race([asked.catch(() => undefined), late]);
  patience.abort();
  return answer;
}

import assert from 'node:assert/strict';
import { evidenceRoutes } from '../../control-plane/evidence/routes.ts';
import { startApi } from '../support/control-plane/api.ts';
import { roomyLimits } from '../support/control-plane/gateway.ts';
import { testServices } from '../support/control-plane/services.ts';
import { anEvent } from '../support/ledger/ledger.ts';
import { freshDatabase, startPostgres } from '../support/programs/postgres.ts';
import { cores, startBaseline } from './baseline.ts';
import type { BenchRow } from './row.ts';

const followers = 200;
const perSecond = 2_000;
const warmUpSeconds = 2;
const seconds = warmUpSeconds + 10;
const everyMs = 10;

interface Followed {
  readonly p50: number;
  readonly p99: number;
  readonly messages: number;
  /** Number of followers that missed an event, or received one twice or out of order. */
  readonly wrong: number;
}

/**
 * Measures how fast 200 followers of one ledger receive its events while 2,000 events a second are
 * sealed.
 */
export async function benchFanOut(): Promise<BenchRow[]> {
  const server = await startPostgres();
  const { url } = await freshDatabase(server.url);
  const services = await testServices({ databaseUrl: url });
  const api = await startApi(evidenceRoutes(services), services, { limits: roomyLimits });
  try {
    const key = await api.key({ tenantId: 'followed', role: 'auditor' });
    const events = perSecond * seconds;
    const warmUp = perSecond * warmUpSeconds;
    const args = [JSON.stringify({ origin: api.origin, key, followers, events, warmUp })];
    const client = await startBaseline<{ readonly following: number }>('fan-out-client.ts', {
      args,
      on: cores.others,
    });
    assert.equal(client.ready.following, followers);
    const before = process.cpuUsage();
    await sealEvenly(services, events);
    await client.exited();
    const [, said = ''] = client.output().trim().split('\n');
    const { p50, p99, messages, wrong } = JSON.parse(said) as Followed;
    const { user, system } = process.cpuUsage(before);
    // Reports processor time, because other load on the machine does not affect it.
    const cpuSeconds = ((user + system) / 1_000_000).toFixed(1);
    assert.equal(wrong, 0);
    assert.equal(messages, followers * events);
    return [
      {
        row: `ledger, SSE, ${followers} followers, ${perSecond} events/s, p99 (p50 ${p50.toFixed(0)} ms, ${cpuSeconds} s of CPU for ${seconds} s)`,
        ours: p99,
        baseline: 250,
        baselineName: 'goal, at most',
        ratio: p99 / 250,
        unit: 'ms',
        spread: 0,
      },
    ];
  } finally {
    await api.close();
    await services.close();
    await server.stop();
  }
}

/**
 * Seals a fixed number of events at each tick, whether or not the earlier ones are already sealed.
 */
async function sealEvenly(
  services: Awaited<ReturnType<typeof testServices>>,
  events: number,
): Promise<void> {
  const each = (perSecond * everyMs) / 1_000;
  const startedAt = performance.now();
  const seals: Promise<unknown>[] = [];
  for (let sent = 0; sent < events; sent += each) {
    const dueMs = (sent / perSecond) * 1_000 - (performance.now() - startedAt);
    if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs));
    const batch = Array.from({ length: each }, () => anEvent());
    seals.push(services.ledger.sealAll('followed', batch));
  }
  await Promise.all(seals);
}

import { Redis } from 'ioredis';
import type { Replica } from '../../proxy/replica/replica.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { silentLog } from '../../shared/base/log.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import { openBus } from '../../shared/bus/open.ts';
import { openTestStore, SyncWorld } from '../support/control-plane/sync-world.ts';
import { startPostgres } from '../support/programs/postgres.ts';
import { startRedis } from '../support/programs/redis.ts';
import { benchPolicy } from './policy-rules.ts';
import type { BenchRow } from './row.ts';

const replicas = 50;
const changes = 60;
/** Number of changes for the warm-up until the JIT compilers have finished. */
const warmUps = 5;

/**
 * Measures the time from the commit of a change until 50 replicas enforce it. Compares it with the
 * time that Redis needs to deliver a message to 50 subscribers. Each replica has its own Redis
 * connection, but all run in one process, which makes them slower.
 */
export async function benchSync(): Promise<BenchRow[]> {
  const postgres = await startPostgres({ durable: true });
  const redis = await startRedis();
  const store = await openTestStore(postgres.url);
  const open = () => openBus({ redisUrl: redis.url, log: silentLog, clock: systemClock });
  const buses: Bus[] = [await open()];
  const [first] = buses;
  if (first === undefined) throw new TypeError('no bus');
  const world = await SyncWorld.open({ store, bus: first });
  const publisher = world.publisher({ roundMs: 1_000 });
  const agentId = await world.agent();
  const held: Replica[] = [];
  try {
    for (let index = 0; index < replicas; index++) {
      await world.sidecar(`sc_${index}`, agentId);
      const bus = await open();
      buses.push(bus);
      held.push(await world.replica(`sc_${index}`, bus));
    }
    for (let change = 0; change < warmUps; change++) await enforced(world, publisher, held);
    const delays: number[] = [];
    for (let change = 0; change < changes; change++)
      delays.push(...(await enforced(world, publisher, held)));
    return [rowOf(delays, await delivered(redis.url))];
  } finally {
    for (const replica of held) await replica.close();
    await publisher.close();
    for (const bus of buses) await bus.close();
    await store.close();
    await redis.stop();
    await postgres.stop();
  }
}

let version = 1;

/**
 * Publishes a policy set. Returns, for each replica, the milliseconds until it decides with this
 * set.
 */
async function enforced(
  world: SyncWorld,
  publisher: ReturnType<SyncWorld['publisher']>,
  held: readonly Replica[],
): Promise<number[]> {
  const startedAt = { ms: 0 };
  const arrivals = held.map(
    (replica) =>
      new Promise<number>((resolve) => {
        const stop = replica.onChange('policies', () => {
          stop();
          resolve(performance.now() - startedAt.ms);
        });
      }),
  );
  version += 1;
  const definition = { ...benchPolicy, id: `bench-${version}`, version };
  await world.change(publisher, ['policies'], async (tx) => {
    await tx.policy.deleteMany({});
    await world.policy(tx, definition as Parameters<SyncWorld['policy']>[1]);
  });
  startedAt.ms = performance.now();
  publisher.nudge();
  return Promise.all(arrivals);
}

/**
 * Returns the milliseconds from PUBLISH to each subscriber; there are as many subscribers as
 * replicas.
 */
async function delivered(url: string): Promise<number[]> {
  const subscribers = await Promise.all(
    Array.from({ length: replicas }, async () => {
      const subscriber = new Redis(url);
      await subscriber.subscribe('bench');
      return subscriber;
    }),
  );
  const publisher = new Redis(url);
  const text = 'x'.repeat(32_000);
  const delays: number[] = [];
  for (let round = 0; round < changes; round++) {
    const startedAt = performance.now();
    const arrivals = subscribers.map(
      (subscriber) =>
        new Promise<number>((resolve) => {
          subscriber.once('message', () => resolve(performance.now() - startedAt));
        }),
    );
    await publisher.publish('bench', text);
    delays.push(...(await Promise.all(arrivals)));
  }
  for (const connection of [...subscribers, publisher]) connection.disconnect();
  return delays;
}

function rowOf(ours: readonly number[], baseline: readonly number[]): BenchRow {
  const p99 = (values: readonly number[]) =>
    values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;
  const [mine, theirs] = [p99(ours), p99(baseline)];
  const sorted = ours.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return {
    row: `sync, 200 rules published to ${replicas} replicas, p99 (median ${median.toFixed(0)} ms)`,
    ours: mine,
    baseline: theirs,
    baselineName: 'Redis PUBLISH of as many bytes, p99',
    ratio: mine / theirs,
    unit: 'ms',
    spread: 0,
  };
}

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunningPublisher } from '../../../control-plane/publishing/publisher-loop.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { openHeartbeat } from '../../../shared/sync/signed-heartbeat.ts';
import { sectionDigest } from '../../../shared/sync/signed-section.ts';
import { until } from '../../support/base/until.ts';
import { denyAll, PublisherStage } from './publisher-stage.ts';

let stage: PublisherStage;
beforeAll(async () => {
  stage = await PublisherStage.open();
});
afterAll(() => stage.close());
beforeEach(() => stage.begin());
afterEach(() => stage.end());

describe('several concurrent publishers', () => {
  it('leave the highest version on the bus, and its digest in the database', async () => {
    const second = await openBus({ redisUrl: stage.redis.url, log: silentLog, clock: systemClock });
    stage.endWith(() => second.close());
    const running = [
      stage.publisher(),
      stage.publisher({ bus: second }),
      stage.publisher({ bus: second }),
    ];
    await Promise.all(running.map((one) => one.round()));
    for (let round = 1; round <= 15; round++) {
      await stage.world.change(running[round % 3] as RunningPublisher, ['policies'], (tx) =>
        stage.world.policy(tx, denyAll(round)),
      );
      for (const one of running) one.nudge();
    }
    await Promise.all(running.map((one) => one.round()));
    const { version, body, token } = await stage.onBus('policies');
    expect(version).toBe(16);
    expect(body.policies).toHaveLength(15);
    const stored = await stage.store.db.syncSection.findUniqueOrThrow({
      where: { tenantId_name: { tenantId: stage.world.tenantId, name: 'policies' } },
    });
    expect(stored).toMatchObject({
      version: 16n,
      publishedVersion: 16n,
      digest: sectionDigest(token),
    });
  });

  it('never replace a newer version with an older version, even if one publisher is delayed', async () => {
    const [slow, fast] = [stage.publisher(), stage.publisher()];
    await slow.round();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let reached = () => {};
    const reading = new Promise<void>((resolve) => {
      reached = resolve;
    });
    // The slow publisher pauses after comparing the versions and before writing the section.
    const stalled: Bus = Object.assign(Object.create(stage.bus), {
      read: (...args: Parameters<Bus['read']>) => stage.bus.read(...args),
      load: (...args: Parameters<Bus['load']>) => stage.bus.load(...args),
      subscribe: (...args: Parameters<Bus['subscribe']>) => stage.bus.subscribe(...args),
      replace: async (...args: Parameters<Bus['replace']>) => {
        if (args[1] === 'policies') {
          reached();
          await held;
        }
        return stage.bus.replace(...args);
      },
    });
    const stalling = stage.publisher({ bus: stalled });
    await stalling.round();
    await stage.world.change(stalling, ['policies'], (tx) => stage.world.policy(tx, denyAll(1)));
    const stuck = stalling.round();
    await reading;
    await stage.world.change(fast, ['policies'], (tx) => stage.world.policy(tx, denyAll(2)));
    await fast.round();
    expect((await stage.onBus('policies')).version).toBe(3);
    release();
    await stuck;
    expect((await stage.onBus('policies')).version).toBe(3);
    expect(await stage.row('policies')).toMatchObject({ version: 3n, publishedVersion: 3n });
  });

  it('number all heartbeats in one strictly increasing sequence', async () => {
    await stage.world.sidecar(`sc-${stage.tenants}`, await stage.world.agent());
    const seen: number[] = [];
    const keys = await stage.world.sectionKeys();
    const subscription = stage.bus.follow(
      stage.world.tenantId,
      (await stage.bus.load(stage.world.tenantId)).at,
      {
        wants: (name) => name === 'heartbeat',
        onGap() {},
        onChange: ({ value }) => {
          const opened = openHeartbeat(value, keys, { tenant: stage.world.tenantId });
          if (opened.ok) seen.push(opened.heartbeat.sequence);
        },
      },
    );
    stage.endWith(() => subscription.close());
    const running = [
      stage.publisher({ roundMs: 5 }),
      stage.publisher({ roundMs: 5 }),
      stage.publisher({ roundMs: 5 }),
    ];
    await until(() => seen.length > 40);
    await Promise.all(running.map((one) => one.close()));
    const later = stage.publisher({ roundMs: 5 });
    const lastSeen = Math.max(...seen);
    await until(() => Math.max(...seen) > lastSeen + 5);
    await later.close();
    // A follower may receive the same heartbeat twice, and never an earlier one.
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  });
});

import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import { PublishedTenant } from '../../support/sidecar/published-tenant.ts';
import { published, type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
});
afterEach(() => stage.end());

describe('a snapshot on disk', () => {
  const path = () => join(stage.folder, 'snapshot.json');

  it('lets a restarted sidecar decide without the bus; the age is that of the stored state', async () => {
    stage.tenant.bodies.policies = { policies: [published] };
    await stage.tenant.publishAll();
    await stage.close(await stage.open({ snapshotFile: path() }));
    await stage.bus.close();
    stage.clock.advance(10_000);
    const replica = await stage.open({ snapshotFile: path() });
    expect(replica.policies.size).toBe(1);
    expect(replica.freshness()).toEqual({ fresh: true, ageMs: 10_000 });
    stage.clock.advance(20_001);
    expect(replica.freshness().fresh).toBe(false);
  });

  it('does not let a sidecar decide after it was down for longer than the staleness limit', async () => {
    await stage.tenant.publishAll();
    await stage.close(await stage.open({ snapshotFile: path() }));
    await stage.bus.close();
    stage.clock.advance(30_001);
    const replica = await stage.open({ snapshotFile: path() });
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('is readable by its owner only', async () => {
    await stage.tenant.publishAll();
    await writeFile(`${path()}.new`, 'left by a crash', { mode: 0o644 });
    await stage.close(await stage.open({ snapshotFile: path() }));
    expect((await stat(path())).mode & 0o777).toBe(0o600);
  });

  it('makes a restarted sidecar reject older sections and heartbeats on the bus', async () => {
    await stage.tenant.publish('policies', { policies: [] });
    const before = { policies: stage.tenant.tokens.get('policies') ?? '', heartbeat: '' };
    await stage.tenant.publishAll();
    before.heartbeat = stage.tenant.heartbeat();
    await stage.tenant.publish('policies', { policies: [published] });
    await stage.tenant.beat();
    await stage.close(await stage.open({ snapshotFile: path() }));
    await stage.tenant.put('policies', before.policies);
    await stage.tenant.put('heartbeat', before.heartbeat);
    const replica = await stage.open({ snapshotFile: path() });
    expect(replica.policies.size).toBe(1);
    expect(replica.refused).toBe(2);
  });

  it.each([
    ['not JSON', 'not json'],
    ['JSON of another shape', '{"sections":[]}'],
    ['empty', ''],
  ])('is ignored if it is %s', async (_what, text) => {
    await stage.tenant.publishAll();
    await writeFile(path(), text);
    expect((await stage.open({ snapshotFile: path() })).freshness().fresh).toBe(true);
  });

  it('is used without the sections that were edited', async () => {
    await stage.tenant.publishAll();
    await stage.close(await stage.open({ snapshotFile: path() }));
    const snapshot = JSON.parse(await readFile(path(), 'utf8'));
    const forger = new PublishedTenant(stage.bus, stage.clock);
    snapshot.sections.policies = forger.sign('policies', { policies: [published] });
    await writeFile(path(), JSON.stringify(snapshot));
    await stage.bus.close();
    const replica = await stage.open({ snapshotFile: path() });
    expect(replica.refused).toBe(1);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
  });

  it('is refused as a whole if it belongs to another tenant', async () => {
    const other = new PublishedTenant(stage.bus, stage.clock, 'other');
    Object.assign(other, { key: stage.tenant.key });
    await other.publishAll();
    await stage.close(await stage.open({ tenantId: 'other', snapshotFile: path() }));
    const replica = await stage.open({ snapshotFile: path() });
    expect(replica.refused).toBe(9);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
  });

  it('keeps its age if it is an older copy, and is replaced by the sections on the bus', async () => {
    await stage.tenant.publishAll();
    await stage.close(await stage.open({ snapshotFile: path() }));
    const earlier = await readFile(path(), 'utf8');
    stage.clock.advance(31_000);
    stage.tenant.bodies.policies = { policies: [published] };
    await stage.tenant.publishAll();
    await stage.close(await stage.open({ snapshotFile: path() }));
    await writeFile(path(), earlier);
    const back = await stage.open({ snapshotFile: path() });
    expect(back.policies.size).toBe(1);
    await stage.close(back);
    await writeFile(path(), earlier);
    await stage.bus.close();
    const alone = await stage.open({ snapshotFile: path() });
    expect(() => alone.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('never restores a lease', async () => {
    await stage.tenant.publishAll();
    const first = await stage.open({ snapshotFile: path() });
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    await until(() => first.nextUse() !== undefined);
    await stage.close(first);
    const second = await stage.open({ snapshotFile: path() });
    expect(second.nextUse()).toBeUndefined();
  });
});

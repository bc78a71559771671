import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { killSwitchRoutes } from '../../../control-plane/kill-switches/routes.ts';
import { newId } from '../../../shared/base/ids.ts';
import { until } from '../../support/base/until.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const { services, api, close } = await startWatchedApi(killSwitchRoutes);
const { db, clock } = services;
afterAll(close);

const path = '/api/v1/runtime/kill-switches';
let key: string;
beforeAll(async () => {
  await db.tenant.create({ data: { id: 't1', name: 't1' } });
  key = await api.key({ tenantId: 't1' });
});
beforeEach(() => db.sidecar.deleteMany());

const arm = (more: object = {}) =>
  api.send('POST', path, { key, body: { kind: 'block_tool', tool: 'x', reason: 'r', ...more } });
const ids = (list: unknown) => (list as { sidecar: string }[]).map(({ sidecar }) => sidecar);

interface Standing {
  readonly enrolledAgoMs?: number;
  readonly seenAgoMs?: number;
  readonly revoked?: boolean;
  readonly version?: number;
}

async function sidecar({ enrolledAgoMs = 3_600_000, ...standing }: Standing): Promise<string> {
  const { seenAgoMs, revoked = false, version } = standing;
  const id = newId('sc', clock.now());
  const ago = (ms: number) => new Date(clock.now() - ms);
  await db.sidecar.create({
    data: {
      id,
      tenantId: 't1',
      agentId: '1',
      userId: 'u',
      environment: 'prod',
      signingJwk: {},
      encryptionJwk: {},
      enrolledAt: ago(enrolledAgoMs),
      lastSeenAt: seenAgoMs === undefined ? null : ago(seenAgoMs),
      revokedAt: revoked ? ago(1_000) : null,
      ...(version === undefined ? {} : { report: { versions: { kill_switches: version } } }),
    },
  });
  return id;
}

async function versionInForce(): Promise<number> {
  await services.publisher.nudge();
  const where = { tenantId_name: { tenantId: 't1', name: 'kill_switches' } };
  let version = 0;
  await until(async () => {
    const row = await db.syncSection.findUniqueOrThrow({ where });
    version = Number(row.version);
    return row.publishedVersion === row.version;
  });
  return version;
}

describe('the confirmation of a kill switch by sidecars', () => {
  it('is expected from no sidecar if none is enrolled', async () => {
    const { status, body } = await arm({ wait_ms: 10_000 });
    expect([status, body]).toMatchObject([201, { confirmed: [], missing: [], silent: [] }]);
  });

  it('is expected from unrevoked sidecars that were seen within 30 seconds or have just enrolled', async () => {
    const live = await sidecar({ seenAgoMs: 29_000, version: 1 });
    const fresh = await sidecar({ enrolledAgoMs: 1_000 });
    const silent = await sidecar({ seenAgoMs: 31_000, version: 1 });
    await sidecar({ seenAgoMs: 1_000, revoked: true });
    await sidecar({ seenAgoMs: 3_000_000 });
    const { body } = await arm({ wait_ms: 200 });
    expect(body?.confirmed).toEqual([]);
    expect(ids(body?.missing).sort()).toEqual([live, fresh].sort());
    expect(body?.silent).toEqual([
      { sidecar: silent, last_seen_at: new Date(clock.now() - 31_000).toISOString() },
    ]);
  });

  it('is complete for a sidecar that reports the version of the change, or a later version', async () => {
    const before = await versionInForce();
    const id = await sidecar({ seenAgoMs: 0, version: before });
    const waiting = arm({ wait_ms: 10_000 });
    await until(async () => (await versionInForce()) > before);
    const report = { versions: { kill_switches: before + 1 } };
    await db.sidecar.updateMany({ where: { id }, data: { report } });
    expect((await waiting).body).toMatchObject({ confirmed: [id], missing: [] });
  });

  it('is not satisfied by a version that a sidecar reported before a rollback of the database', async () => {
    for (let n = 0; n < 5; n++) await arm();
    const before = await versionInForce();
    const id = await sidecar({ seenAgoMs: 0, version: before });
    await db.syncSection.updateMany({
      where: { tenantId: 't1', name: 'kill_switches' },
      data: { version: 1, publishedVersion: 1 },
    });
    const { body } = await arm({ wait_ms: 800 });
    expect([body?.confirmed, ids(body?.missing)]).toEqual([[], [id]]);
    expect(await versionInForce()).toBeGreaterThan(before);
  });

  it('is evaluated again if the request is repeated with its idempotency key, even with another `wait_ms`', async () => {
    const id = await sidecar({ seenAgoMs: 0, version: 0 });
    const first = await arm({ idempotency_key: 'k', wait_ms: 0 });
    expect(ids(first.body?.missing)).toEqual([id]);
    const report = { versions: { kill_switches: await versionInForce() } };
    await db.sidecar.updateMany({ where: { id }, data: { report } });
    const again = await arm({ idempotency_key: 'k', wait_ms: 5_000 });
    expect(again.body).toMatchObject({ id: first.body?.id, confirmed: [id], missing: [] });
    const unasked = await arm({ idempotency_key: 'k' });
    expect(unasked.body).not.toHaveProperty('confirmed');
  });

  it('is also awaited when a kill switch is disarmed', async () => {
    const id = await sidecar({ seenAgoMs: 0, version: 0 });
    const armed = await arm();
    const disarmed = await api.send('DELETE', `${path}/${armed.body?.id}?wait_ms=100`, { key });
    expect([disarmed.status, ids(disarmed.body?.missing)]).toEqual([200, [id]]);
  });
});

it.each([-1, 1.5, 10_001, '100', null])(
  'a kill switch with wait_ms %j is refused and not armed',
  async (wait_ms) => {
    const before = await db.killSwitch.count();
    const armed = await arm({ wait_ms });
    expect([armed.status, armed.body?.reason_code]).toEqual([400, 'args.schema_invalid']);
    expect(await db.killSwitch.count()).toBe(before);
    const id = (await db.killSwitch.findFirst())?.id;
    if (wait_ms === '100') return;
    const disarmed = await api.send('DELETE', `${path}/${id}?wait_ms=${wait_ms}`, { key });
    expect([disarmed.status, disarmed.body?.reason_code]).toEqual([400, 'request.invalid']);
  },
);

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Transaction } from '../../../control-plane/services.ts';
import type { Store } from '../../../control-plane/store/open.ts';
import type { RunningPublisher } from '../../../control-plane/sync/publisher.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import { verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { idTimeMs } from '../../../shared/ids.ts';
import type { JsonObject } from '../../../shared/json.ts';
import { silentLog } from '../../../shared/log.ts';
import { readPassport } from '../../../shared/passport/verify.ts';
import { leaseTopic, sidecarSection } from '../../../shared/sync/sections.ts';
import { openSection } from '../../../shared/sync/signed-section.ts';
import { type ManualClock, manualClock } from '../../support/manual-clock.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { openTestStore, SyncWorld } from '../../support/sync-world.ts';
import { until } from '../../support/until.ts';

const sidecarId = 'sc_1';
const own = sidecarSection(sidecarId);

let database: Awaited<ReturnType<typeof freshDatabase>>;
let store: Store;
let clock: ManualClock;
let bus: Bus;
let world: SyncWorld;
let agentId: string;
let running: RunningPublisher;
const ending: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  database = await freshDatabase();
  store = await openTestStore(database.url);
});
afterAll(async () => {
  await store.close();
  await database.drop();
});
beforeEach(async () => {
  await store.pool.query(
    'truncate tenant, agent, sidecar, passport, sync_section, event_outbox, approval, policy, passport_revocation, signing_key cascade',
  );
  clock = manualClock();
  bus = await openBus({ redisUrl: undefined, log: silentLog, clock });
  world = await SyncWorld.open({ store, bus, clock });
  agentId = await world.agent();
  await world.sidecar(sidecarId, agentId);
  running = world.publisher({ roundMs: 1_000 });
  ending.push(() => running.close());
});
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
  await bus.close();
});

async function ownSection() {
  const token = (await bus.read(world.tenantId, own)) ?? '';
  const expected = { tenant: world.tenantId, section: own };
  const opened = openSection(token, await world.sectionKeys(), expected);
  if (!opened.ok) throw new Error(opened.detail);
  return opened.envelope;
}

async function passportOf(token: string | undefined) {
  const keys = verificationKeys(await world.signingKeys.publicKeys(world.tenantId, 'passport'));
  const reading = readPassport(token ?? '', keys);
  if (reading.form !== 'signed') throw new Error(reading.detail);
  return reading.claims;
}

async function lease() {
  return passportOf((await ownSection()).body.lease);
}

async function replica(): Promise<Replica> {
  const opened = await world.replica(sidecarId);
  ending.push(() => opened.close());
  return opened;
}

const events = async () =>
  (await store.db.eventOutbox.findMany({ orderBy: { id: 'asc' } })).map(({ event }) =>
    JSON.parse(event),
  );

describe('a lease', () => {
  it('is issued to a live sidecar for its agent, user and audience, and kept and proved', async () => {
    await running.round();
    const claims = await lease();
    const nowSeconds = Math.floor(clock.now() / 1000);
    expect(claims).toMatchObject({
      iss: 'sallyport',
      sub: agentId,
      user_id: 'ann',
      aud: 'sidecar://sc_1',
      tenant_id: world.tenantId,
      goal: 'pay bills',
      allowed_tools: ['pay.*'],
      allowed_resources: [],
      approval_hash: null,
      lease_size: 10_000_000,
      iat: nowSeconds,
      exp: nowSeconds + 300,
    });
    expect(idTimeMs(claims.jti)).toBe(clock.now());
    const row = await store.db.passport.findFirstOrThrow({ where: { jti: claims.jti } });
    expect(row).toMatchObject({ kind: 'lease', agentId, sidecarId, audience: 'sidecar://sc_1' });
    expect(row.expiresAt.getTime()).toBe(claims.exp * 1000);
    expect(await events()).toMatchObject([
      { type: 'passport.issued', chain_id: `agent:${agentId}`, data: { jti: claims.jti } },
    ]);
  });

  it('stays the same until half its life is over, then the next one comes', async () => {
    await running.round();
    const first = await lease();
    clock.advance(149_000);
    await running.round();
    expect((await lease()).jti).toBe(first.jti);
    clock.advance(1_000);
    await running.round();
    expect((await lease()).jti).not.toBe(first.jti);
    expect(await store.db.passport.count()).toBe(2);
  });

  it('is issued once, however many control planes find it due', async () => {
    const others = Array.from({ length: 4 }, () => world.publisher());
    ending.push(...others.map((one) => () => one.close()));
    await Promise.all([running, ...others].map((one) => one.round()));
    expect(await store.db.passport.count({ where: { kind: 'lease' } })).toBe(1);
  });

  it.each([
    ['revoked', () => store.db.sidecar.updateMany({ data: { revokedAt: new Date() } })],
    [
      'not seen for ten minutes',
      () => store.db.sidecar.updateMany({ data: { enrolledAt: new Date(clock.now() - 600_001) } }),
    ],
  ])('is not issued to a sidecar that was %s', async (_what, make) => {
    await make();
    await running.round();
    await store.db.passport.deleteMany();
    await running.round();
    expect(await store.db.passport.count()).toBe(0);
  });

  it.each([
    ['disabled', () => store.db.agent.updateMany({ data: { disabledAt: new Date() } })],
    ['deleted', () => store.db.agent.deleteMany()],
  ])('is not issued, nor handed out again, once the agent is %s', async (_what, make) => {
    await running.round();
    await make();
    await world.change(running, [own]);
    await running.round();
    expect((await ownSection()).body.lease).toBeUndefined();
    clock.advance(200_000);
    await running.round();
    expect(await store.db.passport.count()).toBe(1);
  });

  it('is taken back when the sidecar is revoked', async () => {
    await running.round();
    await world.change(running, [own, 'revocations'], (tx) =>
      tx.sidecar.updateMany({ data: { revokedAt: new Date(clock.now()) } }),
    );
    await running.round();
    expect((await ownSection()).body).toEqual({ approvals: [], credentialsVersion: 0 });
  });

  it('covers what its agent is registered for now, under the same numbers', async () => {
    await running.round();
    const before = await lease();
    await world.change(running, [own], (tx) =>
      tx.agent.updateMany({ data: { capabilities: ['mail.*'] } }),
    );
    await running.round();
    expect(await lease()).toMatchObject({ jti: before.jti, allowed_tools: ['mail.*'] });
  });

  it('is issued anew to a sidecar that restarted and asks, and not without end', async () => {
    await running.round();
    const held = await replica();
    expect(held.nextUse()).toBeUndefined();
    await until(() => held.nextUse() !== undefined);
    for (let round = 0; round < 30; round++) {
      await bus.notify(tenantTopic(world.tenantId, leaseTopic), sidecarId);
      await new Promise(setImmediate);
      await running.round();
    }
    expect(await store.db.passport.count({ where: { kind: 'lease' } })).toBe(10);
  });

  it('is not issued because somebody asks for a sidecar that is not there', async () => {
    await running.round();
    await bus.notify(tenantTopic(world.tenantId, leaseTopic), 'sc_2');
    await bus.notify(tenantTopic('other', leaseTopic), sidecarId);
    await running.round();
    expect(await store.db.passport.count()).toBe(1);
  });

  it('asked of a control plane whose clock is behind is the latest all the same', async () => {
    await running.round();
    const held = await replica();
    clock.setWall(clock.now() - 3_000);
    await until(() => held.nextUse() !== undefined);
  });

  it('survives a rotation of the key that signs it', async () => {
    await running.round();
    const held = await replica();
    await until(() => held.nextUse() !== undefined);
    await world.change(running, ['keys'], (tx) =>
      tx.signingKey.updateMany({
        where: { purpose: 'passport' },
        data: { state: 'retired', retiredAt: new Date(clock.now()) },
      }),
    );
    clock.advance(200_000);
    await running.round();
    await until(() => held.passportKeys.size === 2);
    await until(() => held.nextUse()?.claims.exp === Math.floor(clock.now() / 1000) + 300);
    expect(held.refused).toBe(0);
  });
});

describe('an approval', () => {
  let nextId = 0;

  interface Wanted {
    readonly status: string;
    readonly proof?: JsonObject | undefined;
    readonly effectiveArgs?: string | undefined;
    readonly usedAt?: Date | undefined;
    readonly resource?: string;
    readonly sidecar?: string;
    readonly digest?: string;
    /** False: the decision is not in the ledger. */
    readonly sealed?: boolean;
  }

  /** An approval's row, with the ledger row that its decision left. */
  async function approval(wanted: Wanted, tx: Transaction | Store['db'] = store.db) {
    nextId += 1;
    const { tenantId } = world;
    const id = nextId;
    const decided = wanted.proof !== undefined;
    const eventHash = `sha256:${'a'.repeat(50)}${String(id).padStart(14, '0')}`;
    const now = new Date(clock.now());
    await tx.approval.create({
      data: {
        id,
        tenantId,
        status: wanted.status,
        agentId,
        userId: 'ann',
        tool: 'pay.out',
        resource: wanted.resource ?? 'account:main',
        riskTier: 'high',
        reasonCode: 'amount.high',
        summary: '',
        chainId: `agent:${agentId}`,
        actionDigest: wanted.digest ?? 'sha256:asked',
        channels: [],
        sidecarId: wanted.sidecar ?? sidecarId,
        requestedAt: now,
        expiresAt: new Date(clock.now() + 3_600_000),
        ...(decided ? { decidedAt: now, eventId: `ev-${tenantId}-${id}`, eventHash } : {}),
        ...(wanted.effectiveArgs === undefined ? {} : { effectiveArgs: wanted.effectiveArgs }),
        ...(wanted.usedAt === undefined ? {} : { usedAt: wanted.usedAt }),
      },
    });
    if (decided && wanted.sealed !== false) await ledgerRow(id, eventHash, wanted.proof ?? {});
    return { id, eventHash };
  }

  async function ledgerRow(id: number, eventHash: string, proof: JsonObject) {
    const { tenantId } = world;
    const canonical = JSON.stringify({
      type: 'approval.decided',
      source: 'control-plane',
      data: {
        approval_id: id,
        status: 'approved',
        effective_digest: 'sha256:asked',
        grant_expires_at: new Date(clock.now() + 3_600_000).toISOString(),
        ...proof,
      },
    });
    await store.db.evidenceRow.create({
      data: {
        tenantId,
        position: BigInt(Date.now()) * 1000n + BigInt(id),
        chainId: `chain-${id}-${Date.now()}`,
        seq: 1n,
        prevHash: 'sha256:0',
        eventHash,
        canonical,
        eventId: `ev-${tenantId}-${id}`,
        type: 'approval.decided',
        source: 'control-plane',
        occurredAt: new Date(clock.now()),
      },
    });
  }

  async function delivered() {
    await world.change(running, [own]);
    await running.round();
    return (await ownSection()).body.approvals;
  }

  beforeEach(() => {
    nextId += 1_000;
  });

  it('that waits is told to its sidecar, and to no other', async () => {
    const { id } = await approval({ status: 'pending' });
    await approval({ status: 'pending', sidecar: 'sc_2', digest: 'sha256:other' });
    expect(await delivered()).toEqual([
      {
        id,
        actionDigest: 'sha256:asked',
        status: 'pending',
        expiresAtMs: clock.now() + 3_600_000,
      },
    ]);
  });

  it.each(['context_requested', 'reauth_required', 'escalated'])(
    'that is %s still waits',
    async (status) => {
      await approval({ status });
      expect(await delivered()).toMatchObject([{ status: 'pending' }]);
    },
  );

  it('that nobody decided in time is expired', async () => {
    await approval({ status: 'pending' });
    clock.advance(3_600_000);
    expect(await delivered()).toMatchObject([{ status: 'expired' }]);
  });

  it('that was granted comes with a passport for exactly this, issued once and proved', async () => {
    const { id, eventHash } = await approval({ status: 'approved', proof: {} });
    const [granted] = await delivered();
    expect(granted).toMatchObject({
      id,
      status: 'approved',
      eventHash,
      effectiveDigest: 'sha256:asked',
      expiresAtMs: clock.now() + 3_600_000,
    });
    const claims = await passportOf(granted?.passport);
    expect(claims).toMatchObject({
      sub: agentId,
      user_id: 'ann',
      aud: 'sidecar://sc_1',
      allowed_tools: ['pay.out'],
      allowed_resources: ['account:main'],
      approval_hash: eventHash,
      risk_tier: 'high',
    });
    expect(claims.lease_size).toBeUndefined();
    expect(idTimeMs(claims.jti)).toBe(clock.now());
    const issued = (await events()).filter(({ data }) => data.kind === 'grant');
    expect(issued).toMatchObject([{ type: 'passport.issued', data: { jti: claims.jti } }]);
    expect(await store.db.passport.count({ where: { kind: 'grant' } })).toBe(1);
  });

  it('has the same passport in every build, by whichever control plane', async () => {
    await approval({ status: 'approved', proof: {} });
    const [first] = await delivered();
    clock.advance(30_000);
    const [second] = await delivered();
    expect(second?.passport).toBe(first?.passport);
    const others = [world.publisher(), world.publisher()];
    ending.push(...others.map((one) => () => one.close()));
    await approval({ status: 'approved', proof: {} });
    await world.change(running, [own]);
    await Promise.all([running, ...others].map((one) => one.round()));
    const all = (await ownSection()).body.approvals;
    expect(all.map(({ passport }) => passport !== undefined)).toEqual([true, true]);
    expect((await events()).filter(({ data }) => data.kind === 'grant')).toHaveLength(2);
  });

  it('that was modified comes with the arguments to perform', async () => {
    const args = { amount: 5 };
    const id = nextId + 1;
    const place = {
      tenantId: world.tenantId,
      purpose: 'approval_args',
      id: `${id}:effective`,
      version: 1,
    };
    await approval({
      status: 'modified',
      proof: { status: 'modified', effective_digest: 'sha256:less' },
      effectiveArgs: world.vault.seal(JSON.stringify(args), place),
    });
    expect(await delivered()).toMatchObject([
      { status: 'modified', effectiveDigest: 'sha256:less', effectiveArgs: args },
    ]);
  });

  it('whose arguments cannot be opened waits, and keeps nothing else back', async () => {
    await approval({
      status: 'modified',
      proof: { status: 'modified' },
      effectiveArgs: 'moved here from elsewhere',
    });
    await approval({ status: 'approved', proof: {} });
    const [unreadable, other] = await delivered();
    expect(unreadable).toMatchObject({ status: 'pending' });
    expect(unreadable?.passport).toBeUndefined();
    expect(other?.passport).toBeDefined();
    expect((await ownSection()).body.lease).toBeDefined();
  });

  it.each([
    ['is not in the ledger', { status: 'approved', proof: {}, sealed: false }],
    ['was denied by the ledger', { status: 'approved', proof: { status: 'denied' } }],
    ['is another’s by the ledger', { status: 'approved', proof: { approval_id: 1 } }],
  ])('that is granted in its row but %s grants nothing', async (_what, wanted) => {
    await approval(wanted as Wanted);
    const [told] = await delivered();
    expect(told).toMatchObject({ status: 'pending' });
    expect(told?.passport).toBeUndefined();
    expect(await store.db.passport.count({ where: { kind: 'grant' } })).toBe(0);
  });

  it('that was used says so, and hands no passport out again', async () => {
    await approval({ status: 'approved', proof: {}, usedAt: new Date(clock.now()) });
    const [used] = await delivered();
    expect(used).toMatchObject({ status: 'approved', used: true });
    expect(used?.passport).toBeUndefined();
  });

  it('that was denied is told for an hour', async () => {
    await approval({ status: 'denied', proof: { status: 'denied' } });
    expect(await delivered()).toMatchObject([{ status: 'denied' }]);
    clock.advance(3_600_001);
    expect(await delivered()).toEqual([]);
  });

  it('of a resource that no passport can name is granted by its digest alone', async () => {
    await approval({ status: 'approved', proof: {}, resource: '' });
    const [granted] = await delivered();
    expect((await passportOf(granted?.passport)).allowed_resources).toEqual([]);
  });

  it('decided while its section is being built is delivered all the same', async () => {
    for (let round = 0; round < 20; round++) {
      const underWay = running.round();
      const { id } = await approval({ status: 'approved', proof: {} });
      await world.change(running, [own]);
      await Promise.all([underWay, running.round()]);
      const told = (await ownSection()).body.approvals.find((one) => one.id === id);
      expect(told).toMatchObject({ status: 'approved', passport: expect.any(String) });
    }
  });

  it('reaches the waiting replica', async () => {
    await running.round();
    const held = await replica();
    const { id, eventHash } = await approval({ status: 'approved', proof: {} });
    await world.change(running, [own]);
    running.nudge();
    await until(() => held.approvalById(id)?.passport !== undefined);
    expect(held.approvalFor('sha256:asked')?.id).toBe(id);
    expect(held.approvalByHash(eventHash)?.id).toBe(id);
  });
});

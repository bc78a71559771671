import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { consumeApproval } from '../../control-plane/approvals/consume-approval.ts';
import { decideApproval } from '../../control-plane/approvals/decide-approval.ts';
import { openApproval } from '../../control-plane/approvals/open-approval.ts';
import { commitChange } from '../../control-plane/core/commit-change.ts';
import { openServices } from '../../control-plane/main.ts';
import type { Caller } from '../../control-plane/platform/access/caller.ts';
import { permissionsOf } from '../../control-plane/platform/access/roles.ts';
import { readConfig } from '../../control-plane/platform/config/config.ts';
import { openReplica } from '../../proxy/replica/open-replica.ts';
import type { Replica } from '../../proxy/replica/replica.ts';
import { actionDigest } from '../../shared/approval/action-digest.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { silentLog } from '../../shared/base/log.ts';
import { openBus } from '../../shared/bus/open.ts';
import { generateSigningKey, verificationKeys } from '../../shared/crypto/signing-key.ts';
import { decide } from '../../shared/decision/decide.ts';
import { readPassport } from '../../shared/passport/verify.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { until } from '../support/base/until.ts';
import { handSigned } from '../support/control-plane/hand-signed.ts';
import { freshDatabase } from '../support/programs/postgres.ts';
import { startRedis, type TestRedis } from '../support/programs/redis.ts';

/**
 * Control planes and replicas run as in production: they share only Postgres and Redis, and each has its own
 * connections.
 */
const tenantId = 'acme';
const replicaCount = 50;
const ending: (() => Promise<unknown>)[] = [];
let redis: TestRedis;
let folder: string;
let env: Record<string, string>;
let first: Awaited<ReturnType<typeof openServices>>;
let second: Awaited<ReturnType<typeof openServices>>;
let agentId: string;

beforeAll(async () => {
  redis = await startRedis();
  const database = await freshDatabase();
  folder = await mkdtemp(join(tmpdir(), 'sallyport-sync-'));
  env = {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    SALLYPORT_MASTER_KEY: randomBytes(32).toString('base64'),
    SALLYPORT_DATA_DIR: folder,
  };
  first = await startControlPlane();
  second = await startControlPlane();
  const db = handSigned(first.services.db, first.services.guard);
  await db.tenant.create({ data: { id: tenantId, name: 'Acme' } });
  const agent = await db.agent.create({
    data: { tenantId, name: 'bot', capabilities: ['pay.*'] },
  });
  agentId = String(agent.id);
  for (let index = 0; index < replicaCount; index++) await enrol(`sc_${index}`);
  first.services.publisher.nudge();
  ending.push(async () => {
    await first.close();
    await second.close();
    await database.drop();
    await rm(folder, { recursive: true });
    await redis.stop();
  });
}, 60_000);
afterAll(async () => {
  for (const end of ending.reverse()) await end();
});

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

function startControlPlane() {
  const readFile = () => '';
  return openServices(readConfig({ env, readFile }), silentLog);
}

async function enrol(id: string): Promise<void> {
  const jwk = { ...generateSigningKey().publicJwk };
  await handSigned(first.services.db, first.services.guard).sidecar.create({
    data: {
      id,
      tenantId,
      agentId,
      userId: 'ann',
      environment: 'prod',
      signingJwk: jwk,
      encryptionJwk: jwk,
    },
  });
}

async function openSidecar(index: number): Promise<Replica> {
  const bus = await openBus({ redisUrl: redis.url, log: silentLog, clock: systemClock });
  const keys = await first.services.signingKeys.publicKeys(tenantId, 'sync');
  const replica = await openReplica({
    bus,
    tenantId,
    sidecarId: `sc_${index}`,
    sectionKeys: verificationKeys(keys),
    maxStalenessMs: 30_000,
    clock: systemClock,
    log: silentLog,
  });
  closing.push(async () => {
    await replica.close();
    await bus.close();
  });
  return replica;
}

async function openSidecars(): Promise<readonly Replica[]> {
  await first.services.signingKeys.active(tenantId, 'sync');
  const opened = await Promise.all(Array.from({ length: replicaCount }, (_, n) => openSidecar(n)));
  await until(() => opened.every((one) => one.freshness().fresh), { withinMs: 20_000 });
  return opened;
}

const approver: Caller = {
  kind: 'key',
  tenantId,
  principal: 'bob',
  role: 'approver',
  scope: 'tenant',
  permissions: permissionsOf('approver', false),
  address: '127.0.0.1',
};

function armKillSwitch(by: typeof first, id: string) {
  return commitChange(by.services, tenantId, async (_tx, notes) => {
    notes.sections('kill_switches');
    const data = {
      id,
      tenantId,
      kind: 'block_tool',
      tool: 'pay.out',
      reason: 'test',
      armedBy: 'bob',
    };
    await notes.rows('kill_switch').create(data);
  });
}

describe('a committed change', () => {
  it('reaches fifty sidecars from either control plane, in time', async () => {
    const held = await openSidecars();
    const took: number[] = [];
    for (let round = 1; round <= 10; round++) {
      const startedAt = performance.now();
      await armKillSwitch(round % 2 === 0 ? first : second, `k${round}`);
      await Promise.all(
        held.map(async (replica) => {
          await until(() => replica.killSwitches.length === round);
          took.push(performance.now() - startedAt);
        }),
      );
    }
    // The goal is 250 ms on an idle machine. The limit is higher, because other tests may be running.
    expect(took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.5)]).toBeLessThan(1_000);
    await until(() => held.every((replica) => replica.freshness().fresh));
    expect(held.map((replica) => replica.refused)).toEqual(held.map(() => 0));
  });

  it('is published again together with the leases if Redis restarts empty', async () => {
    const held = await openSidecars();
    const before = held[0]?.killSwitches.length ?? 0;
    await redis.restart();
    await until(() => armKillSwitch(first, 'after the restart').then(() => true));
    await until(() => held.every((replica) => replica.killSwitches.length === before + 1), {
      withinMs: 20_000,
    });
    await until(() => held.every((replica) => replica.freshness().ageMs < 1_500), {
      withinMs: 20_000,
    });
    expect(() => held[0]?.assertFresh()).not.toThrow();
    await until(() => held.every((replica) => replica.nextUse() !== undefined), {
      withinMs: 20_000,
    });
  });

  it('is published if one of the control planes is unavailable', async () => {
    const replica = await openSidecar(0);
    await second.close();
    await until(() => replica.freshness().fresh);
    const before = replica.killSwitches.length;
    await armKillSwitch(first, 'by the one that is left');
    await until(() => replica.killSwitches.length === before + 1);
    const { ageMs } = replica.freshness();
    await until(() => replica.freshness().ageMs < ageMs || replica.freshness().ageMs < 500);
    second = await startControlPlane();
  });
});

describe('an approval', () => {
  it('reaches the waiting sidecar when a human grants it, allows only the approved action, and is used once', async () => {
    const { services } = first;
    const replica = await openSidecar(3);
    await until(() => replica.freshness().fresh);
    const action: Action = {
      tenantId,
      agentId,
      userId: 'ann',
      tool: 'pay.in',
      resource: 'account:main',
      args: { amount: 500 },
    };
    const digest = actionDigest({
      tenant: tenantId,
      agent_id: agentId,
      user_id: 'ann',
      tool: action.tool,
      resource: action.resource,
      args: action.args,
      manifest_hash: null,
    });
    const { id } = await openApproval(services, {
      action,
      actionDigest: digest,
      terms: { channels: [], minRole: 'approver', quorum: 1 },
      riskTier: 'medium',
      reasonCode: 'amount.high',
      summary: 'pay',
      matchedRules: [],
      requestedBy: ['sidecar:sc_3'],
      sidecarId: 'sc_3',
    });
    await until(() => replica.approvalFor(digest)?.status === 'pending');
    await decideApproval(services, approver, { id, action: 'approve', source: 'api' });
    await until(() => replica.approvalById(id)?.passport !== undefined);

    const granted = replica.approvalFor(digest);
    const reading = readPassport(granted?.passport ?? '', replica.passportKeys);
    if (reading.form !== 'signed') throw new Error(reading.detail);
    const judged = (args: Action['args']) =>
      decide(
        { ...action, args },
        {
          point: 'enforcement',
          audience: 'sidecar://sc_3',
          tenant: replica.tenant,
          environment: 'prod',
          killSwitches: [],
          agent: replica.agent(agentId),
          policies: replica.policies,
          passport: {
            form: 'signed',
            claims: reading.claims,
            source: 'presented',
            revoked: replica.isRevoked(reading.claims.jti),
            use: 'claimed',
            approval: {
              approvalId: id,
              eventHash: granted?.eventHash ?? '',
              actionDigest: granted?.effectiveDigest ?? '',
              granted: true,
              used: false,
              expiresAtMs: granted?.expiresAtMs ?? 0,
              deciders: granted?.deciders,
            },
          },
        },
        Date.now(),
      );
    expect(judged({ amount: 501 }).effects.some(({ kind }) => kind === 'spend_approval')).toBe(
      false,
    );

    const spending = {
      approvalId: id,
      eventHash: granted?.eventHash ?? '',
      usedBy: 'sidecar:sc_3',
    };
    const spent = await Promise.all(
      [1, 2, 3].map(() => consumeApproval(services, tenantId, spending)),
    );
    expect(spent.filter(Boolean)).toHaveLength(1);
    await until(() => replica.approvalById(id)?.used === true);
    expect(replica.approvalFor(digest)).toBeUndefined();
  });
});

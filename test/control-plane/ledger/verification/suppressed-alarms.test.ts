import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { recordFork } from '../../../../control-plane/ledger/tree/fork.ts';
import { raiseAlarm } from '../../../../control-plane/ledger/verification/alarm.ts';
import { reportLoss } from '../../../../control-plane/ledger/verification/report-loss.ts';
import { verifyDue } from '../../../../control-plane/ledger/verification/self-verify.ts';
import {
  changeVerification,
  readVerification,
} from '../../../../control-plane/ledger/verification/verification-state.ts';
import { reportIncident } from '../../../../control-plane/sidecars/report-incident.ts';
import { tenantKeys } from '../../../../shared/bus/tenant-keys.ts';
import { putWebhook } from '../../../../shared/contract/deliveries.ts';
import { sha256 } from '../../../../shared/crypto/hash.ts';
import { enrolledSidecar } from '../../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, startGateway } from '../../../support/control-plane/gateway.ts';
import {
  eventsOf,
  type TestServices,
  testServices,
} from '../../../support/control-plane/services.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';
import { startRedis, type TestRedis } from '../../../support/programs/redis.ts';

const tenantId = 'default';
const verifyMs = 60_000;
let redis: TestRedis;
/** A client that writes to Redis and knows which claims the control plane would make. */
let writer: Redis;
let gateway: Gateway;
beforeAll(async () => {
  redis = await startRedis();
  writer = new Redis(redis.url);
  // One test stops the Redis server for a moment.
  writer.on('error', () => {});
});
afterAll(async () => {
  await writer.quit();
  await redis.stop();
});
beforeEach(async () => {
  await writer.flushall();
  gateway = await startGateway({
    redisUrl: redis.url,
    env: { SALLYPORT_VERIFY_MS: String(verifyMs) },
    masterKey: randomBytes(32),
  });
  await gateway.owner.call(putWebhook, { body: { url: 'https://hooks.example.com/x' } });
});
afterEach(async () => {
  await gateway.api.close();
  await gateway.services.close();
});

const claim = (key: string) => writer.set(tenantKeys(tenantId).claim(key), '1');
const sealedOf = async (type: string) =>
  (await eventsOf(gateway.services, tenantId)).filter((event) => event.type === type);
const messages = (kind: string) => gateway.services.db.delivery.count({ where: { kind } });
const told = async (type: string, kind = type) => ({
  events: (await sealedOf(type)).length,
  messages: await messages(kind),
});

const lost = {
  position: 6,
  treeRoot: sha256('a tree'),
  ledgerPosition: 3,
  observation: 'a test saw',
};
const lose = (services = gateway.services, more = {}) =>
  reportLoss(services, tenantId, { ...lost, ...more });

/** Starts another control plane on the same database and Redis. */
const another = (): Promise<TestServices> => {
  const { config, masterKey } = gateway.services;
  return testServices({
    databaseUrl: config.databaseUrl ?? '',
    redisUrl: redis.url,
    masterKey,
    env: { SALLYPORT_VERIFY_MS: String(verifyMs) },
  });
};

describe('a rollback of the ledger', () => {
  it('is recorded and sent to the webhook, even if Redis already contains the alarm’s deduplication key', async () => {
    await claim(`alarm:evidence.rolled_back:${lost.position} ${lost.treeRoot}`);
    await lose();
    await lose();
    expect(await told('evidence.rolled_back')).toEqual({ events: 1, messages: 1 });
    expect(await readVerification(gateway.services, tenantId)).toMatchObject({ lostPosition: 6 });
  });

  it('is recorded and sent once if two control planes report it at the same time', async () => {
    const other = await another();
    const all = [gateway.services, other].flatMap((services) =>
      Array.from({ length: 5 }, (_, n) => lose(services, { data: { sidecar_id: `sc_${n}` } })),
    );
    await Promise.all(all);
    await other.close();
    expect(await told('evidence.rolled_back')).toEqual({ events: 1, messages: 1 });
    expect(await sealedOf('evidence.id_conflict')).toEqual([]);
  });

  it('is not recorded again after Redis was flushed, except if the lost head has a different tree root', async () => {
    await lose();
    await writer.flushall();
    await lose();
    expect(await told('evidence.rolled_back')).toEqual({ events: 1, messages: 1 });
    await lose(gateway.services, { treeRoot: sha256('another tree') });
    expect(await told('evidence.rolled_back')).toEqual({ events: 2, messages: 2 });
  });

  it('is stored in the verification state again if this state lost it after the event was sealed', async () => {
    const { services } = gateway;
    await lose();
    await changeVerification(services, tenantId, (state) => ({ ...state, lostPosition: 0 }));
    await lose();
    expect(await readVerification(services, tenantId)).toMatchObject({ lostPosition: 6 });
    expect(await told('evidence.rolled_back')).toEqual({ events: 1, messages: 1 });
  });
});

describe('scheduled verification of the ledger', () => {
  const key = 'content_mismatch 2 agent:7';
  const fail = () =>
    raiseAlarm(gateway.services, tenantId, {
      type: 'chain_verification_failed',
      key,
      data: { events: 3 },
    });
  const kind = 'evidence.chain_verification_failed';

  it('reports a failure to the webhook at most once per hour, even if Redis already contains the alarm’s deduplication key', async () => {
    await claim(`alarm:chain_verification_failed:${key}`);
    await fail();
    await fail();
    expect(await told('chain_verification_failed', kind)).toEqual({ events: 2, messages: 1 });
    gateway.services.clock.advance(60 * 60_000);
    await fail();
    expect(await told('chain_verification_failed', kind)).toEqual({ events: 3, messages: 2 });
  });

  it('runs within two intervals, even if Redis marks every verification as already claimed', async () => {
    const { services } = gateway;
    const turn = Math.floor(services.clock.now() / verifyMs);
    for (let n = 0; n < 10; n++) await claim(`verification:${turn + n}`);
    const left = new Map<string, number>();
    const verified = async () => {
      await verifyDue(services, left);
      return (await readVerification(services, tenantId)).verifiedAtMs > 0;
    };
    await services.ledger.seal(tenantId, anEvent());
    expect(await verified()).toBe(false);
    services.clock.advance(verifyMs);
    expect(await verified()).toBe(false);
    services.clock.advance(verifyMs);
    expect(await verified()).toBe(true);
  });

  it('runs even at a control plane that cannot reach Redis', async () => {
    const { services } = gateway;
    await services.ledger.seal(tenantId, anEvent());
    await redis.kill();
    try {
      await verifyDue(services);
      expect((await readVerification(services, tenantId)).verifiedAtMs).toBeGreaterThan(0);
    } finally {
      await redis.restart();
    }
  });
});

it('a fork of the ledger is recorded and sent, even if a database writer inserted an event with the alarm’s event id', async () => {
  const { services } = gateway;
  const digest = sha256(`fork ${tenantId} 9 wrong`);
  const guessed = `ev_${digest.slice('sha256:'.length, 'sha256:'.length + 32)}`;
  await services.pool.query(
    `insert into event_outbox (tenant_id, event_id, event) values ($1, $2, '{}')`,
    [tenantId, guessed],
  );
  for (let n = 0; n < 2; n++) {
    await recordFork(services, tenantId, { size: 9, problem: 'wrong' });
  }
  expect(await told('evidence.fork')).toEqual({ events: 1, messages: 1 });
});

it('a gap in a sidecar’s evidence is recorded once a day, even if Redis already contains the alarm’s deduplication key', async () => {
  const { services } = gateway;
  const { id } = await enrolledSidecar(gateway, await gateway.agent());
  const sidecar = await services.db.sidecar.findFirstOrThrow({ where: { id } });
  const incident = { type: 'sidecar.evidence_gap', key: '7 aa', data: { next_record: 8 } } as const;
  const hashed = sha256(`${incident.type} ${incident.key}`).slice('sha256:'.length);
  await claim(`incident:${id}:${hashed}`);
  const other = await another();
  const all = [services, services, other, other];
  await Promise.all(all.map((one) => reportIncident(one, sidecar, incident)));
  await other.close();
  expect(await sealedOf(incident.type)).toHaveLength(1);
  services.clock.advance(24 * 60 * 60_000);
  await reportIncident(services, sidecar, incident);
  expect(await sealedOf(incident.type)).toHaveLength(2);
});

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { leaseTopic, sidecarSection, tenantSections } from '../../../shared/sync/sections.ts';
import { until } from '../../support/base/until.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';
import { pending, type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
});
afterEach(() => stage.end());

describe('a lease', () => {
  /** Opens a replica, and only then sends it its lease. */
  async function openWithLease(token: string): Promise<Replica> {
    await stage.tenant.publishAll();
    const replica = await stage.open();
    await stage.tenant.publishOwn({ lease: token });
    await until(() => replica.versions()[sidecarSection(sidecarId)] !== undefined);
    return replica;
  }

  it('gives out each use number once and in order, each as a separate passport', async () => {
    const replica = await openWithLease(stage.tenant.lease());
    const uses = Array.from({ length: 1_000 }, () => replica.nextUse());
    const jtis = uses.map((use) => use?.claims.jti ?? '');
    expect(new Set(jtis).size).toBe(1_000);
    expect(jtis.map((jti) => jti.split('.')[1])).toEqual(jtis.map((_, n) => String(n)));
    expect(uses[0]).toMatchObject({
      form: 'signed',
      source: 'lease',
      revoked: false,
      use: 'claimed',
    });
  });

  it('gives out no passport after its last use', async () => {
    const replica = await openWithLease(stage.tenant.lease({ size: 2 }));
    expect([replica.nextUse(), replica.nextUse(), replica.nextUse()].map(Boolean)).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('gives out no passport after its expiry', async () => {
    const replica = await openWithLease(stage.tenant.lease({ ttl: 60 }));
    stage.clock.advance(60_001);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('is replaced by the next lease, and is not used again even if it is published again', async () => {
    const first = stage.tenant.lease();
    const replica = await openWithLease(first);
    replica.nextUse();
    const own = sidecarSection(sidecarId);
    const published = async (lease: string) => {
      const version = replica.versions()[own];
      await stage.tenant.publishOwn({ lease });
      await until(() => replica.versions()[own] !== version);
    };
    const before = replica.nextUse()?.claims.jti;
    await published(stage.tenant.lease());
    const after = replica.nextUse()?.claims.jti;
    await published(first);
    const then = replica.nextUse()?.claims.jti;
    expect(before?.endsWith('.1')).toBe(true);
    expect(after?.endsWith('.0')).toBe(true);
    expect(then).toBe(after?.replace(/0$/, '1'));
  });

  it('continues with the next use number if its section is published again', async () => {
    const lease = stage.tenant.lease();
    const replica = await openWithLease(lease);
    replica.nextUse();
    await stage.tenant.publishOwn({ lease, approvals: [pending] });
    await until(() => replica.approvalById(7) !== undefined);
    expect(replica.nextUse()?.claims.jti.endsWith('.1')).toBe(true);
  });

  it('that was issued before this process started is not used, and a new lease is requested', async () => {
    await stage.tenant.publishAll();
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    const asked: string[] = [];
    stage.bus.subscribe(tenantTopic('acme', leaseTopic), (message) => asked.push(message));
    const replica = await stage.open();
    expect(replica.nextUse()).toBeUndefined();
    await until(() => asked.length > 0);
    expect(asked[0]).toBe(sidecarId);
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    await until(() => replica.nextUse() !== undefined);
  });

  it('that was issued before this process started is not used, even if its key arrives later', async () => {
    for (const name of tenantSections) if (name !== 'keys') await stage.tenant.publish(name);
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    const replica = await stage.open();
    await stage.tenant.publish('keys');
    await stage.tenant.beat();
    await until(() => replica.freshness().fresh);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('may arrive before the key that signed it', async () => {
    const next = new PublishedTenant(stage.bus, stage.clock).passportKey;
    await stage.tenant.publishAll();
    const replica = await stage.open();
    const { passportKey } = stage.tenant;
    Object.assign(stage.tenant, { passportKey: next });
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    await until(() => replica.refused > 0);
    expect(replica.nextUse()).toBeUndefined();
    await stage.tenant.publish('keys', { passportKeys: [next.publicJwk, passportKey.publicJwk] });
    await until(() => replica.nextUse() !== undefined);
  });

  it.each([
    ['for another sidecar', (of: PublishedTenant) => of.lease({ sidecar: 'sc_2' })],
    [
      'for another tenant',
      () => {
        const other = new PublishedTenant(stage.bus, stage.clock, 'other');
        Object.assign(other, { passportKey: stage.tenant.passportKey });
        return other.lease();
      },
    ],
    [
      'signed with an unknown key',
      () => {
        const forger = new PublishedTenant(stage.bus, stage.clock);
        Object.assign(forger, { passportKey: generateSigningKey() });
        return forger.lease();
      },
    ],
    ['malformed', () => 'a.b.c'],
  ])('is not used if it is %s', async (_what, make) => {
    const replica = await openWithLease(make(stage.tenant));
    expect(replica.nextUse()).toBeUndefined();
    expect(replica.refused).toBe(1);
  });

  it('is no longer used once the sidecar’s section omits it', async () => {
    const replica = await openWithLease(stage.tenant.lease());
    expect(replica.nextUse()).toBeDefined();
    await stage.tenant.publishOwn({ approvals: [pending] });
    await until(() => replica.approvalById(7) !== undefined);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('marks further uses as revoked if its id or its agent is revoked', async () => {
    const replica = await openWithLease(stage.tenant.lease());
    const jti = replica.nextUse()?.claims.jti ?? '';
    await stage.tenant.publish('revocations', {
      jtis: [jti.split('.')[0] ?? ''],
      agentIds: [],
      sidecarIds: [],
    });
    await until(() => replica.nextUse()?.revoked === true);
    await stage.tenant.publish('revocations', { jtis: [], agentIds: ['2'], sidecarIds: [] });
    await until(() => replica.nextUse()?.revoked === false);
    await stage.tenant.publish('revocations', { jtis: [], agentIds: ['1'], sidecarIds: [] });
    await until(() => replica.nextUse()?.revoked === true);
  });
});

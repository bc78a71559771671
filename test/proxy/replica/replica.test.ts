import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openReplica, type Replica } from '../../../proxy/replica/replica.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { silentLog } from '../../../shared/log.ts';
import { policyHash } from '../../../shared/policy/hash.ts';
import {
  type DeliveredApproval,
  leaseTopic,
  sidecarSection,
  tenantSections,
} from '../../../shared/sync/sections.ts';
import { type ManualClock, manualClock } from '../../support/manual-clock.ts';
import { PublishedTenant, sidecarId } from '../../support/published-tenant.ts';
import { until } from '../../support/until.ts';

let clock: ManualClock;
let bus: Bus;
let tenant: PublishedTenant;
let folder: string;
const opened: Replica[] = [];

beforeEach(async () => {
  clock = manualClock();
  bus = await openBus({ redisUrl: undefined, log: silentLog, clock });
  tenant = new PublishedTenant(bus, clock);
  folder = await mkdtemp(join(tmpdir(), 'sallyport-replica-'));
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((replica) => replica.close()));
  await bus.close();
  await rm(folder, { recursive: true });
});

async function open(change: Partial<Parameters<typeof openReplica>[0]> = {}): Promise<Replica> {
  const replica = await openReplica({
    bus,
    tenantId: 'acme',
    sidecarId,
    sectionKeys: tenant.sectionKeys,
    maxStalenessMs: 30_000,
    clock,
    log: silentLog,
    ...change,
  });
  opened.push(replica);
  return replica;
}

async function close(replica: Replica): Promise<void> {
  opened.splice(opened.indexOf(replica), 1);
  await replica.close();
}

const denyAll = {
  id: 'deny-all',
  version: 1,
  rules: [
    {
      name: 'never',
      decision: 'deny',
      reason: 'not.today',
      when: { all: [{ path: 'tool.name', operator: '!=', value: 'x' }] },
    },
  ],
} as const;
const published = { id: 1, hash: policyHash(denyAll), definition: denyAll };

const pending = {
  id: 7,
  actionDigest: 'sha256:a',
  status: 'pending',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
} as const;

describe('a replica', () => {
  it('without any section refuses every reading', async () => {
    const replica = await open();
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
    expect(() => replica.tenant).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(() => replica.bindings).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(() => replica.tool('a')).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(replica.nextUse()).toBeUndefined();
    expect(replica.freshness().fresh).toBe(false);
  });

  it.each(tenantSections)('without section %s nothing may be decided', async (missing) => {
    for (const name of tenantSections) if (name !== missing) await tenant.publish(name);
    tenant.sign(missing);
    await tenant.beat();
    const replica = await open();
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
  });

  it('holds what was published, and is fresh', async () => {
    tenant.bodies.policies = { policies: [published] };
    tenant.bodies.tools = {
      tools: [
        {
          name: 'pay.out',
          manifestHash: 'sha256:m',
          approvalStatus: 'approved',
          riskTier: 'high',
          approvedSurfaceHash: 'sha256:s',
          inputSchema: { type: 'object', required: ['amount'] },
        },
      ],
    };
    await tenant.publishAll();
    const replica = await open();
    expect(() => replica.assertFresh()).not.toThrow();
    expect(replica.tenant).toEqual({ id: 'acme', name: 'Acme', mode: 'enforce' });
    expect(replica.policies.size).toBe(1);
    expect(replica.policies.evaluate({ tool: { name: 'pay.out' } }).reasonCode).toBe('not.today');
    expect(replica.agent('1')?.name).toBe('bot');
    expect(replica.user('ann')).toEqual({ id: 'ann' });
    expect(replica.agent('2')).toBeUndefined();
    expect(replica.tool('pay.out')?.validateArgs?.({})).toContain('amount');
    expect(replica.tool('pay.out')?.validateArgs?.({ amount: 1 })).toBeUndefined();
    expect(replica.approvedSurface('pay.out')).toBe('sha256:s');
    expect(replica.versions()).toMatchObject({ policies: 1, tools: 1 });
  });

  it('takes changes over as they come, and tells who listens to that section', async () => {
    await tenant.publishAll();
    const replica = await open();
    const told: string[] = [];
    replica.onChange('policies', () => told.push(`policies ${replica.policies.size}`));
    replica.onChange('tools', () => told.push('tools'));
    const stop = replica.onChange('policies', () => told.push('stopped'));
    stop();
    await tenant.publish('policies', { policies: [published] });
    await until(() => told.length > 0);
    expect(told).toEqual(['policies 1']);
  });

  it('a listener that throws keeps nobody from being told', async () => {
    await tenant.publishAll();
    const replica = await open();
    let told = 0;
    replica.onChange('tenant', () => {
      throw new Error('the listener is at fault');
    });
    replica.onChange('tenant', () => {
      told += 1;
    });
    await tenant.publish('tenant');
    await until(() => told === 1);
  });

  it('denies once it is too old, in enforce and strict, and not in monitor and warn', async () => {
    for (const mode of ['monitor', 'warn', 'enforce', 'strict'] as const) {
      await tenant.publish('tenant', { id: 'acme', name: 'Acme', mode });
      await tenant.publishAll();
      const replica = await open();
      clock.advance(30_001);
      const refused = expect.objectContaining({ code: 'policy.update_required' });
      if (mode === 'enforce' || mode === 'strict') {
        expect(() => replica.assertFresh()).toThrow(refused);
      } else {
        expect(() => replica.assertFresh()).not.toThrow();
      }
      await close(replica);
    }
  });

  it('denies once it is too old when a kill switch forces a stricter mode', async () => {
    tenant.bodies.tenant = { id: 'acme', name: 'Acme', mode: 'monitor' };
    tenant.bodies.kill_switches = {
      killSwitches: [{ id: 'k', kind: 'force_mode', mode: 'enforce', reason: 'incident' }],
    };
    await tenant.publishAll();
    const replica = await open();
    clock.advance(30_001);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('a policy that does not have the hash it is published under is not applied', async () => {
    await tenant.publishAll();
    const replica = await open();
    await tenant.publish('policies', {
      policies: [{ ...published, hash: `sha256:${'0'.repeat(64)}` }],
    });
    await tenant.beat();
    await until(() => replica.refused > 0);
    expect(replica.policies.size).toBe(0);
    clock.advance(30_001);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('a tool whose schema cannot be compiled refuses every call', async () => {
    tenant.bodies.tools = {
      tools: [
        {
          name: 'pay.out',
          manifestHash: 'sha256:m',
          approvalStatus: 'approved',
          riskTier: 'low',
          inputSchema: { type: 'no such type' },
        },
      ],
    };
    await tenant.publishAll();
    const replica = await open();
    expect(replica.tool('pay.out')?.validateArgs?.({})).toBeTypeOf('string');
  });

  it('a revoked sidecar may decide nothing more', async () => {
    await tenant.publishAll();
    const replica = await open();
    await tenant.publish('revocations', { jtis: [], agentIds: [], sidecarIds: [sidecarId] });
    await until(() => replica.isRevoked('any'));
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sidecar.revoked' }),
    );
  });
});

describe('a lease', () => {
  /** A replica that received its lease after it had opened. */
  async function openWithLease(token: string): Promise<Replica> {
    await tenant.publishAll();
    const replica = await open();
    await tenant.publishOwn({ lease: token });
    await until(() => replica.versions()[sidecarSection(sidecarId)] !== undefined);
    return replica;
  }

  it('gives each number out once, in order, as a passport of its own', async () => {
    const replica = await openWithLease(tenant.lease());
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

  it('that is used up gives nothing more', async () => {
    const replica = await openWithLease(tenant.lease({ size: 2 }));
    expect([replica.nextUse(), replica.nextUse(), replica.nextUse()].map(Boolean)).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('that is over gives nothing more', async () => {
    const replica = await openWithLease(tenant.lease({ ttl: 60 }));
    clock.advance(60_001);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('gives way to the next one, and is not gone back to', async () => {
    const first = tenant.lease();
    const replica = await openWithLease(first);
    replica.nextUse();
    const own = sidecarSection(sidecarId);
    const published = async (lease: string) => {
      const version = replica.versions()[own];
      await tenant.publishOwn({ lease });
      await until(() => replica.versions()[own] !== version);
    };
    const before = replica.nextUse()?.claims.jti;
    await published(tenant.lease());
    const after = replica.nextUse()?.claims.jti;
    await published(first);
    const then = replica.nextUse()?.claims.jti;
    expect(before?.endsWith('.1')).toBe(true);
    expect(after?.endsWith('.0')).toBe(true);
    expect(then).toBe(after?.replace(/0$/, '1'));
  });

  it('whose section is published again is not begun again', async () => {
    const lease = tenant.lease();
    const replica = await openWithLease(lease);
    replica.nextUse();
    await tenant.publishOwn({ lease, approvals: [pending] });
    await until(() => replica.approvalById(7) !== undefined);
    expect(replica.nextUse()?.claims.jti.endsWith('.1')).toBe(true);
  });

  it('that was there before this process is never used; a new one is asked for', async () => {
    await tenant.publishAll();
    await tenant.publishOwn({ lease: tenant.lease() });
    const asked: string[] = [];
    bus.subscribe(tenantTopic('acme', leaseTopic), (message) => asked.push(message));
    const replica = await open();
    expect(replica.nextUse()).toBeUndefined();
    await until(() => asked.length > 0);
    expect(asked[0]).toBe(sidecarId);
    await tenant.publishOwn({ lease: tenant.lease() });
    await until(() => replica.nextUse() !== undefined);
  });

  it('that was there before this process is not used either when its key arrives later', async () => {
    for (const name of tenantSections) if (name !== 'keys') await tenant.publish(name);
    await tenant.publishOwn({ lease: tenant.lease() });
    const replica = await open();
    await tenant.publish('keys');
    await tenant.beat();
    await until(() => replica.freshness().fresh);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('can come before the key that it is signed with', async () => {
    const next = new PublishedTenant(bus, clock).passportKey;
    await tenant.publishAll();
    const replica = await open();
    const { passportKey } = tenant;
    Object.assign(tenant, { passportKey: next });
    await tenant.publishOwn({ lease: tenant.lease() });
    await until(() => replica.refused > 0);
    expect(replica.nextUse()).toBeUndefined();
    await tenant.publish('keys', { passportKeys: [next.publicJwk, passportKey.publicJwk] });
    await until(() => replica.nextUse() !== undefined);
  });

  it.each([
    ['another sidecar', (of: PublishedTenant) => of.lease({ sidecar: 'sc_2' })],
    [
      'another tenant',
      () => {
        const other = new PublishedTenant(bus, clock, 'other');
        Object.assign(other, { passportKey: tenant.passportKey });
        return other.lease();
      },
    ],
    [
      'an unknown key',
      () => {
        const forger = new PublishedTenant(bus, clock);
        Object.assign(forger, { passportKey: generateSigningKey() });
        return forger.lease();
      },
    ],
    ['no known form', () => 'a.b.c'],
  ])('of %s is not used', async (_what, make) => {
    const replica = await openWithLease(make(tenant));
    expect(replica.nextUse()).toBeUndefined();
    expect(replica.refused).toBe(1);
  });

  it('that is withdrawn ends at once', async () => {
    const replica = await openWithLease(tenant.lease());
    expect(replica.nextUse()).toBeDefined();
    await tenant.publishOwn({ approvals: [pending] });
    await until(() => replica.approvalById(7) !== undefined);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('that is revoked, by its own id or with its agent, makes every further use revoked', async () => {
    const replica = await openWithLease(tenant.lease());
    const jti = replica.nextUse()?.claims.jti ?? '';
    await tenant.publish('revocations', {
      jtis: [jti.split('.')[0] ?? ''],
      agentIds: [],
      sidecarIds: [],
    });
    await until(() => replica.nextUse()?.revoked === true);
    await tenant.publish('revocations', { jtis: [], agentIds: ['2'], sidecarIds: [] });
    await until(() => replica.nextUse()?.revoked === false);
    await tenant.publish('revocations', { jtis: [], agentIds: ['1'], sidecarIds: [] });
    await until(() => replica.nextUse()?.revoked === true);
  });
});

describe('approvals of this sidecar', () => {
  const granted = {
    id: 8,
    actionDigest: 'sha256:a',
    status: 'approved',
    expiresAtMs: Number.MAX_SAFE_INTEGER,
    eventHash: 'sha256:e',
    passport: 'x.y.z',
  } as const;

  async function openWith(...approvals: readonly DeliveredApproval[]) {
    await tenant.publishAll();
    await tenant.publishOwn({ approvals });
    return open();
  }

  it('are found by id, by hash and by the action they are about', async () => {
    const replica = await openWith(granted);
    expect(replica.approvalById(8)).toEqual(granted);
    expect(replica.approvalByHash('sha256:e')).toEqual(granted);
    expect(replica.approvalFor('sha256:a')).toEqual(granted);
    expect(replica.approvalFor('sha256:b')).toBeUndefined();
    expect(replica.approvalByHash('sha256:x')).toBeUndefined();
  });

  it('a modified one is found by the action asked for and by the one granted', async () => {
    const modified = { ...granted, status: 'modified', effectiveDigest: 'sha256:m' } as const;
    const replica = await openWith(modified);
    expect(replica.approvalFor('sha256:a')?.id).toBe(8);
    expect(replica.approvalFor('sha256:m')?.id).toBe(8);
  });

  it('a grant that can be used comes before all else', async () => {
    const replica = await openWith(
      granted,
      { ...pending, id: 9 },
      { ...pending, id: 10, status: 'denied' },
    );
    expect(replica.approvalFor('sha256:a')?.id).toBe(8);
  });

  it.each([
    ['used', { used: true }],
    ['over', { expiresAtMs: 1 }],
    ['not delivered whole', { passport: undefined }],
    ['expired unanswered', { status: 'expired' }],
  ] as const)('one that is %s says nothing', async (_what, change) => {
    const replica = await openWith({ ...granted, ...change });
    expect(replica.approvalFor('sha256:a')).toBeUndefined();
  });

  it('a denial stands', async () => {
    const replica = await openWith({ ...pending, status: 'denied' });
    expect(replica.approvalFor('sha256:a')?.status).toBe('denied');
  });
});

describe('a snapshot on disk', () => {
  const path = () => join(folder, 'snapshot.json');

  it('lets a restarted sidecar start without the bus, as fresh as it was', async () => {
    tenant.bodies.policies = { policies: [published] };
    await tenant.publishAll();
    await close(await open({ snapshotFile: path() }));
    await bus.close();
    clock.advance(10_000);
    const replica = await open({ snapshotFile: path() });
    expect(replica.policies.size).toBe(1);
    expect(replica.freshness()).toEqual({ fresh: true, ageMs: 10_000 });
    clock.advance(20_001);
    expect(replica.freshness().fresh).toBe(false);
  });

  it('does not let one start that was away longer than the staleness', async () => {
    await tenant.publishAll();
    await close(await open({ snapshotFile: path() }));
    await bus.close();
    clock.advance(30_001);
    const replica = await open({ snapshotFile: path() });
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('is readable by its owner only', async () => {
    await tenant.publishAll();
    await writeFile(`${path()}.new`, 'left by a crash', { mode: 0o644 });
    await close(await open({ snapshotFile: path() }));
    expect((await stat(path())).mode & 0o777).toBe(0o600);
  });

  it('keeps an older section or heartbeat on the bus from being taken after a restart', async () => {
    await tenant.publish('policies', { policies: [] });
    const before = { policies: tenant.tokens.get('policies') ?? '', heartbeat: '' };
    await tenant.publishAll();
    before.heartbeat = tenant.heartbeat();
    await tenant.publish('policies', { policies: [published] });
    await tenant.beat();
    await close(await open({ snapshotFile: path() }));
    await tenant.put('policies', before.policies);
    await tenant.put('heartbeat', before.heartbeat);
    const replica = await open({ snapshotFile: path() });
    expect(replica.policies.size).toBe(1);
    expect(replica.refused).toBe(2);
  });

  it.each([
    ['no JSON', 'not json'],
    ['of another form', '{"sections":[]}'],
    ['empty', ''],
  ])('that is %s is as good as none', async (_what, text) => {
    await tenant.publishAll();
    await writeFile(path(), text);
    expect((await open({ snapshotFile: path() })).freshness().fresh).toBe(true);
  });

  it('that somebody edited is refused section by section', async () => {
    await tenant.publishAll();
    await close(await open({ snapshotFile: path() }));
    const snapshot = JSON.parse(await readFile(path(), 'utf8'));
    const forger = new PublishedTenant(bus, clock);
    snapshot.sections.policies = forger.sign('policies', { policies: [published] });
    await writeFile(path(), JSON.stringify(snapshot));
    await bus.close();
    const replica = await open({ snapshotFile: path() });
    expect(replica.refused).toBe(1);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
  });

  it('never brings a lease back', async () => {
    await tenant.publishAll();
    const first = await open({ snapshotFile: path() });
    await tenant.publishOwn({ lease: tenant.lease() });
    await until(() => first.nextUse() !== undefined);
    await close(first);
    const second = await open({ snapshotFile: path() });
    expect(second.nextUse()).toBeUndefined();
  });
});

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../control-plane/platform/store/open.ts';
import type { Transaction } from '../../../control-plane/platform/store/transaction.ts';
import { idTimeMs } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { until } from '../../support/base/until.ts';
import { handSigned } from '../../support/control-plane/hand-signed.ts';
import { openTestStore } from '../../support/control-plane/sync-world.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import {
  endStage,
  openReplicaOf,
  own,
  ownSection,
  passportOf,
  recorded,
  type SectionStage,
  sectionStage,
  sidecarId,
} from './section-stage.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let store: Store;
let stage: SectionStage;

beforeAll(async () => {
  database = await freshDatabase();
  store = await openTestStore(database.url);
});
afterAll(async () => {
  await store.close();
  await database.drop();
});
beforeEach(async () => {
  stage = await sectionStage(store);
});
afterEach(() => endStage(stage));

describe('an approval in the section of its sidecar', () => {
  let nextId = 0;

  interface Wanted {
    readonly status: string;
    readonly proof?: JsonObject | undefined;
    readonly effectiveArgs?: string | undefined;
    readonly usedAt?: Date | undefined;
    readonly resource?: string;
    readonly sidecar?: string;
    readonly digest?: string;
    /** If false, the decision is not in the ledger. */
    readonly sealed?: boolean;
  }

  /** Stores an approval, and records its decision in the ledger. */
  async function approval(wanted: Wanted, tx: Transaction | Store['db'] = store.db) {
    nextId += 1;
    const { tenantId } = stage.world;
    const id = nextId;
    const decided = wanted.proof !== undefined;
    const eventHash = `sha256:${'a'.repeat(50)}${String(id).padStart(14, '0')}`;
    const now = new Date(stage.clock.now());
    const effective = wanted.proof?.effective_digest ?? 'sha256:asked';
    const expiresAt = wanted.proof?.grant_expires_at ?? new Date(stage.clock.now() + 3_600_000);
    await handSigned(tx, stage.world.guard).approval.create({
      data: {
        id,
        tenantId,
        status: wanted.status,
        agentId: stage.agentId,
        userId: 'ann',
        tool: 'pay.out',
        resource: wanted.resource ?? 'account:main',
        riskTier: 'high',
        reasonCode: 'amount.high',
        summary: '',
        chainId: `agent:${stage.agentId}`,
        actionDigest: wanted.digest ?? 'sha256:asked',
        channels: [],
        sidecarId: wanted.sidecar ?? sidecarId,
        requestedAt: now,
        expiresAt: new Date(stage.clock.now() + 3_600_000),
        ...(decided ? { decidedAt: now, eventId: `ev-${tenantId}-${id}`, eventHash } : {}),
        ...(decided
          ? { effectiveDigest: String(effective), grantExpiresAt: new Date(expiresAt as string) }
          : {}),
        ...(wanted.effectiveArgs === undefined ? {} : { effectiveArgs: wanted.effectiveArgs }),
        ...(wanted.usedAt === undefined ? {} : { usedAt: wanted.usedAt }),
      },
    });
    if (decided && wanted.sealed !== false) await ledgerRow(id, eventHash, wanted.proof ?? {});
    return { id, eventHash };
  }

  async function ledgerRow(id: number, eventHash: string, proof: JsonObject) {
    const { tenantId } = stage.world;
    const canonical = JSON.stringify({
      type: 'approval.decided',
      source: 'control-plane',
      agent_id: String(stage.agentId),
      user_id: 'ann',
      tool: 'pay.out',
      data: {
        approval_id: id,
        status: 'approved',
        effective_digest: 'sha256:asked',
        grant_expires_at: new Date(stage.clock.now() + 3_600_000).toISOString(),
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
        occurredAt: new Date(stage.clock.now()),
      },
    });
  }

  async function delivered() {
    await stage.world.change(stage.running, [own]);
    await stage.running.round();
    return (await ownSection(stage)).body.approvals;
  }

  beforeEach(() => {
    nextId += 1_000;
  });

  it('is published as pending, and only to the sidecar that requested it', async () => {
    const { id } = await approval({ status: 'pending' });
    await approval({ status: 'pending', sidecar: 'sc_2', digest: 'sha256:other' });
    expect(await delivered()).toEqual([
      {
        id,
        actionDigest: 'sha256:asked',
        status: 'pending',
        expiresAtMs: stage.clock.now() + 3_600_000,
      },
    ]);
  });

  it.each(['context_requested', 'reauth_required', 'escalated'])(
    'that is %s is published as pending',
    async (status) => {
      await approval({ status });
      expect(await delivered()).toMatchObject([{ status: 'pending' }]);
    },
  );

  it('is published as expired after its expiry', async () => {
    await approval({ status: 'pending' });
    stage.clock.advance(3_600_000);
    expect(await delivered()).toMatchObject([{ status: 'expired' }]);
  });

  it('that was granted contains a passport for this action only, which is issued and recorded once', async () => {
    const { id, eventHash } = await approval({ status: 'approved', proof: {} });
    const [granted] = await delivered();
    expect(granted).toMatchObject({
      id,
      status: 'approved',
      eventHash,
      effectiveDigest: 'sha256:asked',
      expiresAtMs: stage.clock.now() + 3_600_000,
    });
    const claims = await passportOf(stage, granted?.passport);
    expect(claims).toMatchObject({
      sub: stage.agentId,
      user_id: 'ann',
      aud: 'sidecar://sc_1',
      allowed_tools: ['pay.out'],
      allowed_resources: ['account:main'],
      approval_hash: eventHash,
      risk_tier: 'high',
    });
    expect(claims.lease_size).toBeUndefined();
    expect(idTimeMs(claims.jti)).toBe(stage.clock.now());
    const issued = (await recorded(store)).filter(({ data }) => data.kind === 'grant');
    expect(issued).toMatchObject([{ type: 'passport.issued', data: { jti: claims.jti } }]);
    expect(await store.db.passport.count({ where: { kind: 'grant' } })).toBe(1);
  });

  it('contains the same passport each time, whichever control plane builds the section', async () => {
    await approval({ status: 'approved', proof: {} });
    const [first] = await delivered();
    stage.clock.advance(30_000);
    const [second] = await delivered();
    expect(second?.passport).toBe(first?.passport);
    const others = [stage.world.publisher(), stage.world.publisher()];
    stage.ending.push(...others.map((one) => () => one.close()));
    await approval({ status: 'approved', proof: {} });
    await stage.world.change(stage.running, [own]);
    await Promise.all([stage.running, ...others].map((one) => one.round()));
    const all = (await ownSection(stage)).body.approvals;
    expect(all.map(({ passport }) => passport !== undefined)).toEqual([true, true]);
    expect((await recorded(store)).filter(({ data }) => data.kind === 'grant')).toHaveLength(2);
  });

  it('is published as pending if the kind of its issued passport was altered; other approvals are not affected', async () => {
    await approval({ status: 'approved', proof: {} });
    await delivered();
    await store.pool.query(`update passport set kind = 'agent' where kind = 'grant'`);
    await approval({ status: 'approved', proof: {} });
    expect((await delivered()).map(({ passport }) => passport !== undefined)).toEqual([
      false,
      true,
    ]);
    expect((await ownSection(stage)).body.lease).toBeDefined();
  });

  it('that was modified contains the modified arguments', async () => {
    const args = { amount: 5 };
    const id = nextId + 1;
    const place = {
      tenantId: stage.world.tenantId,
      purpose: 'approval_args',
      id: `${id}:effective`,
      version: 1,
    };
    await approval({
      status: 'modified',
      proof: { status: 'modified', effective_digest: 'sha256:less' },
      effectiveArgs: stage.world.vault.seal(JSON.stringify(args), place),
    });
    expect(await delivered()).toMatchObject([
      { status: 'modified', effectiveDigest: 'sha256:less', effectiveArgs: args },
    ]);
  });

  it('is published as pending if its arguments cannot be decrypted; other approvals are not affected', async () => {
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
    expect((await ownSection(stage)).body.lease).toBeDefined();
  });

  it.each([
    ['the ledger has no decision', { status: 'approved', proof: {}, sealed: false }],
    ['the ledger has a denial', { status: 'approved', proof: { status: 'denied' } }],
    [
      'the ledger’s decision belongs to another approval',
      { status: 'approved', proof: { approval_id: 1 } },
    ],
  ])('is published as pending if its row is granted but %s', async (_what, wanted) => {
    await approval(wanted as Wanted);
    const [told] = await delivered();
    expect(told).toMatchObject({ status: 'pending' });
    expect(told?.passport).toBeUndefined();
    expect(await store.db.passport.count({ where: { kind: 'grant' } })).toBe(0);
  });

  it('that was used is published as used, without a passport', async () => {
    await approval({ status: 'approved', proof: {}, usedAt: new Date(stage.clock.now()) });
    const [used] = await delivered();
    expect(used).toMatchObject({ status: 'approved', used: true });
    expect(used?.passport).toBeUndefined();
  });

  it('that was denied is published for an hour', async () => {
    await approval({ status: 'denied', proof: { status: 'denied' } });
    expect(await delivered()).toMatchObject([{ status: 'denied' }]);
    stage.clock.advance(3_600_001);
    expect(await delivered()).toEqual([]);
  });

  it('contains a passport without resources if the approved resource cannot be written in a passport', async () => {
    await approval({ status: 'approved', proof: {}, resource: '' });
    const [granted] = await delivered();
    expect((await passportOf(stage, granted?.passport)).allowed_resources).toEqual([]);
  });

  it('that is decided while its section is being built is published as decided', async () => {
    for (let round = 0; round < 20; round++) {
      const underWay = stage.running.round();
      const { id } = await approval({ status: 'approved', proof: {} });
      await stage.world.change(stage.running, [own]);
      await Promise.all([underWay, stage.running.round()]);
      const told = (await ownSection(stage)).body.approvals.find((one) => one.id === id);
      expect(told).toMatchObject({ status: 'approved', passport: expect.any(String) });
    }
  });

  it('reaches the replica of a sidecar that waits for the decision', async () => {
    await stage.running.round();
    const held = await openReplicaOf(stage);
    const { id, eventHash } = await approval({ status: 'approved', proof: {} });
    await stage.world.change(stage.running, [own]);
    stage.running.nudge();
    await until(() => held.approvalById(id)?.passport !== undefined);
    expect(held.approvalFor('sha256:asked')?.id).toBe(id);
    expect(held.approvalByHash(eventHash)?.id).toBe(id);
  });
});

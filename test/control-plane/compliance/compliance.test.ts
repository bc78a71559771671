import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ledgerState } from '../../../control-plane/compliance/ledger-state.ts';
import { complianceReport, complianceTyp } from '../../../control-plane/compliance/report.ts';
import { sweepRows } from '../../../control-plane/integrity/sweep.ts';
import { changeVerification } from '../../../control-plane/ledger/verification/verification-state.ts';
import { verifyChain } from '../../../control-plane/ledger/verification/verify-chain.ts';
import { allRoutes } from '../../../control-plane/routes.ts';
import {
  type ControlReason,
  controlIds,
  controlReasons,
  getCompliance,
} from '../../../shared/contract/compliance.ts';
import { armKillSwitch, disarmKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { changeTenantSettings, getTenantSettings } from '../../../shared/contract/tenants.ts';
import { verifyObject } from '../../../shared/crypto/signed-object.ts';
import { verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { until } from '../../support/base/until.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { damagesOf, rewrite } from './compliance-damages.ts';
import { complianceStage, reasonsOf } from './compliance-stage.ts';

type Stage = Awaited<ReturnType<typeof complianceStage>>;
let stage: Stage;
beforeAll(async () => {
  stage = await complianceStage();
}, 60_000);
afterAll(() => stage?.close());

const damages = damagesOf((ms) => new Date(stage.gateway.services.clock.now() - ms).toISOString());
const nextSteps: string[] = [];

/** Runs `look` while the tenant's mode is monitor. */
async function whileMonitoring<Result>(look: () => Promise<Result>): Promise<Result> {
  const { owner } = stage.gateway;
  const { mode } = await owner.call(getTenantSettings, {});
  await owner.call(changeTenantSettings, { body: { mode: 'monitor' } });
  try {
    return await look();
  } finally {
    await owner.call(changeTenantSettings, { body: { mode } });
  }
}

/** Reasons that have no row in `damagesOf`, because other tests below cause them. */
const elsewhere: readonly ControlReason[] = [
  'mode_not_enforcing',
  'insufficient_evidence',
  'check_failed',
  'development_keys',
  'verification_stale',
  'evidence_lost',
  'forged_rows',
];

describe('a tenant without deviations', () => {
  it('passes all six controls, and the report states how much evidence was examined', async () => {
    const report = await stage.report();
    expect(report.controls.flatMap(({ findings }) => findings)).toEqual([]);
    expect(report).toMatchObject({ status: 'pass', summary: { pass: 6, fail: 0 } });
    expect(report.controls.map(({ id }) => id)).toEqual(controlIds);
    const [policy, oversight, evidence, keys, change, monitoring] = report.controls;
    expect(policy?.evidence).toMatchObject({ decisions_sampled: 5, replayed: 5, replays_same: 5 });
    expect(oversight?.evidence).toMatchObject({ decided: 1, overdue: 0 });
    expect(evidence?.evidence).toMatchObject({ dead_lettered: 0 });
    expect(keys?.evidence.secrets_opened).toMatchObject({ channels: 1, evidence_salts: 5 });
    expect(change?.evidence).toMatchObject({ tools_used: 2, policies_published: 1 });
    expect(monitoring?.evidence).toMatchObject({ active_channels: 1, oldest_position: 1 });
    for (const one of report.controls) expect(one.next_step).toBeNull();
  });

  it('has a report in which every referenced event exists in the ledger', async () => {
    const { controls } = await stage.report();
    const ids = controls.flatMap(({ evidence }) => (evidence.evidence_event_ids ?? []) as string[]);
    expect(ids.length).toBeGreaterThan(5);
    for (const id of ids) await stage.sealed(id);
  });
});

describe('the compliance controls', () => {
  it.each(damages)(
    'control $control fails with $reason if $how',
    async ({ control, reason, sql }) => {
      const found = await stage.damaged(sql(), () => stage.control(control));
      expect(reasonsOf(found)).toContain(reason);
      expect(found.status).toBe('fail');
      const finding = found.findings.find((one) => one.reason === reason);
      nextSteps.push(finding?.next_step ?? '');
      expect(found.next_step).toBe(found.findings[0]?.next_step);
    },
  );

  it('control CC-1 fails with mode_not_enforcing if the tenant’s mode is monitor', async () => {
    const found = await whileMonitoring(() => stage.control('CC-1'));
    expect(reasonsOf(found)).toEqual(['mode_not_enforcing']);
    nextSteps.push(found.findings[0]?.next_step ?? '');
  });

  it('control CC-1 fails with check_failed if a database writer changed the tenant’s mode', async () => {
    const forged = ["update tenant set mode = 'strict'"];
    const found = await stage.damaged(forged, () => stage.control('CC-1'));
    expect(reasonsOf(found)).toEqual(['check_failed']);
  });

  it('name only existing operations in their next steps', () => {
    const known = new Set(
      allRoutes(stage.gateway.services).map(
        ({ operation }) => `${operation.method} ${operation.path}`,
      ),
    );
    const named = nextSteps.flatMap((step) => step.match(/[A-Z]{3,6} \/v1\/[a-z{}/-]+/g) ?? []);
    expect(nextSteps).toHaveLength(damages.length + 1);
    expect(named.filter((one) => !known.has(one))).toEqual([]);
    expect(named.length).toBeGreaterThan(10);
  });

  it('control CC-1 passes if the tenant’s mode is monitor and a kill switch forces mode enforce', async () => {
    const look = () => stage.control('CC-1');
    const whileArmed = async (body: {
      kind: 'force_mode';
      reason: string;
      mode: 'strict' | 'warn';
      tool?: string;
    }) => {
      const { id } = await stage.gateway.owner.call(armKillSwitch, { body });
      const found = reasonsOf(await whileMonitoring(look));
      await stage.gateway.owner.call(disarmKillSwitch, { params: { id } });
      return found;
    };
    const force = { kind: 'force_mode', reason: 'x' } as const;
    expect(await whileArmed({ ...force, mode: 'strict' })).toEqual([]);
    const insufficientForce = ['mode_not_enforcing'];
    expect(await whileArmed({ ...force, mode: 'warn' })).toEqual(insufficientForce);
    const forOneTool = { ...force, mode: 'strict', tool: 'pay' } as const;
    expect(await whileArmed(forOneTool)).toEqual(insufficientForce);
  });

  it('have a test for every documented reason to fail', () => {
    const made = new Set([...damages.map(({ reason }) => reason), ...elsewhere]);
    expect(
      Object.values(controlReasons)
        .flat()
        .filter((one) => !made.has(one)),
    ).toEqual([]);
  });

  it.each([
    ['CC-1', 'tenant'],
    ['CC-2', 'approval_vote'],
    ['CC-3', 'event_outbox'],
    ['CC-4', 'install'],
    ['CC-5', 'tool_version'],
    ['CC-6', 'kill_switch'],
  ] as const)(
    'control %s fails if its check throws an error; the report still contains the other controls',
    async (id, table) => {
      const { pool } = stage.gateway.services;
      await pool.query(`alter table ${table} rename to away`);
      const { controls } = await stage
        .report()
        .finally(() => pool.query(`alter table away rename to ${table}`));
      expect(controls).toHaveLength(6);
      expect(controls.find((one) => one.id === id)).toMatchObject({
        status: 'fail',
        findings: [{ reason: 'check_failed' }],
        evidence: {},
      });
    },
  );

  it('fail with insufficient_evidence for a tenant without data, except for CC-4', async () => {
    const { services } = stage.gateway;
    const client = await stage.api.client(await stage.api.key({ tenantId: 'other' }));
    // Creates the signing key, as the publisher does.
    await services.signingKeys.active('other', 'checkpoint');
    const { controls, status } = await client.call(getCompliance);
    expect(status).toBe('fail');
    const silent = controls.filter((one) => !reasonsOf(one).includes('insufficient_evidence'));
    expect(silent.map(({ id }) => id)).toEqual(['CC-4']);
    // No tenant `keyless` is stored, because the publisher would create its keys.
    const keyless = (await complianceReport(services, 'keyless')).controls;
    const found = keyless.find(({ id }) => id === 'CC-4')?.findings ?? [];
    expect(reasonsOf({ findings: found })).toEqual(['insufficient_evidence']);
  });

  it('control CC-4 fails only for the tenant that has development keys', async () => {
    const { services } = stage.gateway;
    const devKeys = 'apk_dev-key-one=default:owner:tenant';
    const configured = { ...services, config: { ...services.config, devKeys } };
    const { controls } = await complianceReport(configured, 'default');
    const found = controls.find(({ id }) => id === 'CC-4');
    expect(reasonsOf({ findings: found?.findings ?? [] })).toEqual(['development_keys']);
    const { controls: others } = await complianceReport(configured, 'other');
    expect(others.find(({ id }) => id === 'CC-4')?.findings).toEqual([]);
  });
});

describe('a ledger that is too long for a report to verify completely', () => {
  const state = async () => {
    const { findings, evidence } = await ledgerState(stage.gateway.services, 'default', 3);
    return { reasons: findings.map(({ reason }) => reason), evidence };
  };

  it('is verified from the position where the previous verification stopped', async () => {
    const { services } = stage.gateway;
    await verifyChain(services, 'default');
    await stage.ask();
    const { reasons, evidence } = await state();
    expect(reasons).toEqual([]);
    expect(evidence.events_read).toBeLessThanOrEqual(3);
    const damaged = rewrite('pay', '"decision":"allow"', '"decision":"deny"');
    expect((await stage.damaged([damaged], state)).reasons).toEqual(['ledger_damaged']);
    expect((await state()).reasons).toEqual([]);
  });

  it('is reported as stale after too many unverified events, or if the last complete verification is too old', async () => {
    const { services } = stage.gateway;
    await verifyChain(services, 'default');
    for (let asked = 0; asked < 5; asked++) await stage.ask();
    expect((await state()).reasons).toEqual(['verification_stale']);
    await verifyChain(services, 'default');
    expect((await state()).reasons).toEqual([]);
    services.clock.advance((2 * services.config.verifyWholeHours + 1) * 3_600_000);
    expect((await state()).reasons).toEqual(['verification_stale']);
  });

  it('is reported if an earlier verification found a problem, or if acknowledged events are missing', async () => {
    const { services } = stage.gateway;
    await changeVerification(services, 'default', (before) => ({ ...before, lostPosition: 99 }));
    expect((await state()).reasons).toContain('evidence_lost');
    await changeVerification(services, 'default', (before) => ({
      ...before,
      acceptedPosition: 99,
      problem: { kind: 'gap', position: 2, chain_id: null, message: 'one is missing' },
    }));
    expect((await state()).reasons).toContain('ledger_damaged');
    expect((await state()).reasons).not.toContain('evidence_lost');
    await verifyChain(services, 'default');
    expect((await state()).reasons).toEqual([]);
  });
});

describe('rows that were changed directly in the database', () => {
  it('make CC-5 fail after the sweep finds them, and each webhook is notified once', async () => {
    const { services } = stage.gateway;
    const messages = () =>
      services.db.delivery.count({ where: { kind: 'integrity.forged_row', status: 'pending' } });
    expect(reasonsOf(await stage.control('CC-5'))).toEqual([]);
    const before = await messages();
    const reasons = await stage.damaged([`update policy set version = 99`], async () => {
      await sweepRows(services);
      await sweepRows(services);
      await until(async () => (await messages()) > before, { what: 'the message' });
      return reasonsOf(await stage.control('CC-5'));
    });
    expect(reasons).toContain('forged_rows');
    expect(await messages()).toBe(before + 1);
    await sweepRows(services);
    expect(reasonsOf(await stage.control('CC-5'))).toEqual([]);
  });
});

describe('the compliance report', () => {
  it('is signed with the report key (ES256), and a change of one word invalidates the signature', async () => {
    const report = await stage.report();
    const { signingKeys } = stage.gateway.services;
    const keys = verificationKeys(await signingKeys.publicKeys('default', 'report'));
    expect(report.signature.alg).toBe('ES256');
    const { signature: told, ...object } = report;
    const signature = { ...told, alg: 'ES256' } as const;
    const isGenuine = (said: object, typ: string, by = keys) =>
      verifyObject({ object: said, signature, typ }, by);
    expect(isGenuine(object, complianceTyp)).toBe(true);
    expect(isGenuine({ ...object, tenant: 'other' }, complianceTyp)).toBe(false);
    expect(isGenuine(object, 'another-report')).toBe(false);
    const others = verificationKeys(await signingKeys.publicKeys('default', 'checkpoint'));
    expect(isGenuine(object, complianceTyp, others)).toBe(false);
  });

  it('is refused with an error if it cannot be signed', async () => {
    const { db, clock } = stage.gateway.services;
    const sql = ["update signing_key set sealed = '{}', kid = 'moved' where purpose = 'report'"];
    const refused = await stage.damaged(sql, async () => {
      clock.advance(1_000);
      return refusalOf(stage.report());
    });
    expect(refused).toMatchObject({ code: 'report.signing_unavailable', kind: { status: 503 } });
    const ofReports = { tenantId: 'default', purpose: 'report' };
    expect(await db.signingKey.count({ where: ofReports })).toBe(1);
  });

  it('contains no secret', async () => {
    const text = JSON.stringify(await stage.report());
    const { db } = stage.gateway.services;
    for (const { sealed } of await db.signingKey.findMany()) expect(text).not.toContain(sealed);
    for (const { hash } of await db.apiKey.findMany()) expect(text).not.toContain(hash);
  });
});

import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyDue } from '../../../../control-plane/ledger/verification/self-verify.ts';
import { verifyRows } from '../../../../control-plane/ledger/verification/verify-rows.ts';
import { drainDeliveries } from '../../../../control-plane/notifications/drain-deliveries.ts';
import { channelsOf } from '../../../../control-plane/notifications/routes.ts';
import { putWebhook } from '../../../../shared/contract/deliveries.ts';
import { verifyEvidence } from '../../../../shared/contract/evidence/evidence.ts';
import {
  getVerification,
  verifyAgainstCheckpoint,
} from '../../../../shared/contract/evidence/evidence-verification.ts';
import { type Gateway, refusalOf, startGateway } from '../../../support/control-plane/gateway.ts';
import { eventsOf } from '../../../support/control-plane/services.ts';
import { type Forger, forger } from '../../../support/ledger/forged-ledger.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';
import { startUpstream, type Upstream } from '../../../support/sidecar/upstream.ts';

const tenantId = 'default';
let gateway: Gateway;
let forge: Forger;
let receiver: Upstream;
beforeEach(async () => {
  gateway = await startGateway({
    env: { SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8', SALLYPORT_VERIFY_MS: '60000' },
    masterKey: randomBytes(32),
  });
  const { config, pool } = gateway.services;
  forge = forger(config.databaseUrl ?? '', pool, tenantId);
  receiver = await startUpstream();
  const body = { url: `http://127.0.0.1:${receiver.port}/hook` };
  await gateway.owner.call(putWebhook, { body });
});
afterEach(async () => {
  await receiver.close();
  // The gateway's own `close` is not used, because it requires every ledger to be intact.
  await gateway.api.close();
  await gateway.services.close();
});

const seal = (count: number, fields = {}) =>
  gateway.services.ledger.sealAll(
    tenantId,
    Array.from({ length: count }, () => anEvent(fields)),
  );
const positionNow = async () => (await gateway.owner.call(verifyEvidence)).position;
const state = () => gateway.owner.call(getVerification);
const minutes = (count: number) => gateway.services.clock.advance(count * 60_000);
const deny = (position: number) =>
  forge.run(
    `UPDATE evidence_row SET canonical = replace(canonical, '"allow"', '"deny"')
      WHERE tenant_id = '${tenantId}' AND position = ${position}`,
  );
const incidents = async () =>
  (await eventsOf(gateway.services, tenantId)).filter(
    ({ type }) => type === 'chain_verification_failed',
  );
async function told(): Promise<readonly { readonly type: string; readonly data: object }[]> {
  const { services } = gateway;
  const owner = { tenantId, principal: 'owner' } as Parameters<typeof drainDeliveries>[1];
  await drainDeliveries(services, owner, channelsOf(services));
  return receiver.seen.map(({ body }) => JSON.parse(body));
}

describe('scheduled verification of a ledger', () => {
  it('verifies the whole ledger first, then only new events, and reports the verified position', async () => {
    await seal(5);
    await verifyDue(gateway.services);
    const first = await state();
    expect(first).toMatchObject({ problem: null, lost_position: null });
    expect(first.whole_at).toBe(first.verified_at);
    await seal(5, { chain_id: 'agent:new' });
    await seal(5);
    await verifyDue(gateway.services);
    expect(await state()).toEqual(first);
    minutes(2);
    await verifyDue(gateway.services);
    const second = await state();
    expect(second.position).toBe(first.position + 10);
    expect(second.whole_at).toBe(first.whole_at);
    expect(second.verified_at).not.toBe(first.verified_at);
  });

  it('gives the same result for new events as a complete verification', async () => {
    await seal(4);
    const { upTo } = await verifyRows(gateway.services, { tenantId });
    await seal(3);
    await seal(3, { chain_id: 'agent:new' });
    const position = await positionNow();
    const part = async () => (await verifyRows(gateway.services, { tenantId, from: upTo })).report;
    const whole = async () => (await verifyRows(gateway.services, { tenantId })).report;
    expect(await part()).toMatchObject({
      ok: true,
      events: 6,
      tree_root: (await whole()).tree_root,
    });
    await deny(position - 4);
    expect((await part()).problem).toEqual((await whole()).problem);
    await forge.run(`DELETE FROM evidence_row WHERE position = ${position}`);
    expect((await part()).problems).toEqual((await whole()).problems);
  });

  it('records a problem and notifies the webhook once, and reports the problem until a complete verification succeeds', async () => {
    await seal(5);
    const position = await positionNow();
    await seal(5);
    minutes(2);
    await deny(position + 2);
    const problem = { kind: 'content_mismatch', position: position + 2, chain_id: 'agent:7' };
    for (let round = 0; round < 3; round++) {
      await verifyDue(gateway.services);
      minutes(2);
    }
    expect(await state()).toMatchObject({ problem });
    expect(await incidents()).toMatchObject([{ data: { problem } }]);
    const messages = await told();
    expect(messages).toMatchObject([
      { type: 'evidence.chain_verification_failed', data: { problem } },
    ]);
    await forge.run(
      `UPDATE evidence_row SET canonical = replace(canonical, '"deny"', '"allow"')
        WHERE tenant_id = '${tenantId}' AND position = ${position + 2}`,
    );
    expect(await gateway.owner.call(verifyEvidence)).toMatchObject({ ok: true });
    expect(await state()).toMatchObject({ problem: null });
  });

  it('verifies old rows again a day later', async () => {
    await seal(5);
    await verifyDue(gateway.services);
    await deny(3);
    minutes(2);
    await verifyDue(gateway.services);
    expect(await state()).toMatchObject({ problem: null });
    minutes(24 * 60);
    await verifyDue(gateway.services);
    expect(await state()).toMatchObject({ problem: { kind: 'content_mismatch', position: 3 } });
  });

  it('detects that rows before the verified position were removed, or were rewritten and signed with the tenant’s own key', async () => {
    const restore = await forge.backup();
    await seal(6);
    await verifyDue(gateway.services);
    const { position } = await state();
    const key = await gateway.services.signingKeys.active(tenantId, 'checkpoint');
    await forge.rewriteFrom(position - 3);
    await forge.signHeads(key);
    minutes(24 * 60);
    await verifyDue(gateway.services);
    expect(await state()).toMatchObject({ problem: { kind: 'rewritten' } });
    await forge.run('CREATE TABLE verified AS TABLE evidence_verification');
    await restore();
    // The restore also reset the verification state, so the state of the last verification is put back.
    await forge.run(
      'DELETE FROM evidence_verification',
      'INSERT INTO evidence_verification SELECT * FROM verified',
    );
    expect(await gateway.owner.call(verifyEvidence)).toMatchObject({
      ok: false,
      problem: { kind: 'rolled_back' },
    });
  });

  it('ignores a verification state that was written directly to the database', async () => {
    await seal(5);
    await verifyDue(gateway.services);
    const { position } = await state();
    await deny(3);
    await forge.run(
      `UPDATE evidence_verification SET verified_at = now() + interval '1 year',
              whole_at = now() + interval '1 year'`,
    );
    expect(await state()).toMatchObject({ position: 0, verified_at: null });
    expect(position).toBeGreaterThan(0);
    minutes(2);
    await verifyDue(gateway.services);
    expect(await state()).toMatchObject({ problem: { kind: 'content_mismatch', position: 3 } });
  });
});

describe('the alarm for a failed verification', () => {
  it('is sent to the webhook even if no event can be sealed', async () => {
    await seal(3);
    await forge.run(`UPDATE evidence_head SET position = position - 2`);
    const report = await gateway.owner.call(verifyEvidence);
    expect(report).toMatchObject({ ok: false, problem: { kind: 'inserted' } });
    // The sealer cannot seal the incident, so it reports the problem itself, as `evidence.fork`.
    expect(new Set((await told()).map(({ type }) => type))).toEqual(
      new Set(['evidence.chain_verification_failed', 'evidence.fork']),
    );
  });

  it('is not raised if a caller presents a forged checkpoint', async () => {
    await seal(3);
    const checkpoint =
      'sallyport/t/default\n999\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n\n— a b=\n';
    const refusal = await refusalOf(
      gateway.owner.call(verifyAgainstCheckpoint, { body: { checkpoint } }),
    );
    expect(refusal.code).toBe('evidence.checkpoint_invalid');
    expect(await incidents()).toEqual([]);
    expect(await told()).toEqual([]);
  });
});

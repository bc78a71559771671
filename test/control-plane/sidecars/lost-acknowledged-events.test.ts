import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Spool } from '../../../proxy/spool/spool.ts';
import { Uploader } from '../../../proxy/spool/uploader.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { putWebhook } from '../../../shared/contract/deliveries.ts';
import {
  acceptLoss,
  getVerification,
} from '../../../shared/contract/evidence/evidence-verification.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { LedgerAcknowledgement } from '../../../shared/ledger/ledger-acknowledgement.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { type Forger, forger } from '../../support/ledger/forged-ledger.ts';
import { anEvent, sealElsewhere } from '../../support/ledger/ledger.ts';
import { until } from '../../support/programs/processes.ts';
import { linesFrom } from '../../support/sidecar/spool-lines.ts';

const tenantId = 'default';
let gateway: Gateway;
let forge: Forger;
let sidecar: EnrolledSidecar;
let folder: string;
let spool: Spool;
let uploader: Uploader | undefined;
beforeEach(async () => {
  gateway = await startGateway();
  const { config, pool } = gateway.services;
  forge = forger(config.databaseUrl ?? '', pool, tenantId);
  sidecar = await enrolledSidecar(gateway, await gateway.agent('bot'));
  await gateway.owner.call(putWebhook, { body: { url: 'https://hooks.example.com/x' } });
  folder = mkdtempSync(join(tmpdir(), 'sallyport-rolled-back-'));
  spool = openSpool();
});
afterEach(async () => {
  await stop();
  await gateway.api.close();
  await gateway.services.close();
  await rm(folder, { recursive: true });
});

const openSpool = () => Spool.open({ folder, log: silentLog, fsync: false });

/** Starts an uploader for the sidecar's spool. */
function start(log = silentLog): void {
  const { enrolment, controlPlane, id } = sidecar;
  uploader = new Uploader({
    spool,
    sidecarId: id,
    key: enrolment.signingKey,
    log,
    upload: controlPlane.upload,
  });
}

async function stop(): Promise<void> {
  await uploader?.close();
  await spool.close();
  uploader = undefined;
}

async function restart(): Promise<void> {
  await stop();
  spool = openSpool();
  start();
}

async function write(count: number): Promise<string[]> {
  const records = Array.from({ length: count }, () => sidecar.record());
  await Promise.all(records.map((record) => spool.append(record)));
  return records.map(({ event }) => event.id);
}
const uploaded = () => until('all is uploaded', () => spool.depth === 0);
const refused = () => until('an upload is refused', () => (uploader?.failures ?? 0) > 0);

const idsSealed = async () => (await eventsOf(gateway.services, tenantId)).map(({ id }) => id);
const rollbacks = async () =>
  (await eventsOf(gateway.services, tenantId)).filter(
    ({ type }) => type === 'evidence.rolled_back',
  );
/**
 * Expects an alarm about this position, and no alarm of a kind that is not listed. The sidecar, this control
 * plane or both may have detected the loss.
 */
async function told(position: number, ...kinds: readonly string[]): Promise<void> {
  const alarms = (await rollbacks()).map(
    ({ data }) => data as { acknowledged_position: number; problem: { kind: string } },
  );
  for (const { problem } of alarms) expect(kinds).toContain(problem.kind);
  expect(alarms.map(({ acknowledged_position }) => acknowledged_position)).toContain(position);
}
const messages = () =>
  gateway.services.db.delivery.findMany({ where: { kind: 'evidence.rolled_back' } });
const shown = () => spool.ledgerShownTo(sidecar.id) as LedgerAcknowledgement;

async function uploadShowing(ledger: LedgerAcknowledgement | undefined, by = sidecar) {
  const record = by.record();
  const { jws } = by.segment([record]);
  return by.controlPlane.upload(jws, linesFrom([canonicalJson(record)]), ledger);
}

describe('a ledger that lost acknowledged events', () => {
  it('raises one alarm after the restore of an older backup, and refuses uploads until an operator accepts the loss', async () => {
    start();
    await write(3);
    await uploaded();
    const restore = await forge.backup();
    const lost = await write(2);
    await uploaded();
    const { position } = shown();
    await restore();
    const waiting = await write(2);
    await refused();
    // The state survives a restart.
    await restart();
    await refused();
    expect(spool.depth).toBe(2);
    await told(position, 'rolled_back');
    const alarms = (await rollbacks()).length;
    await until('all are told', async () => (await messages()).length === alarms);
    const state = await gateway.owner.call(getVerification);
    expect(state).toMatchObject({ accepted_position: null });
    // This control plane may have seen a later position than the last one that the sidecar received.
    expect(state.lost_position).toBeGreaterThanOrEqual(position);

    const body = { position: state.lost_position ?? 0, reason: 'a restore' };
    await gateway.owner.call(acceptLoss, { body });
    await uploaded();
    const ids = await idsSealed();
    expect(ids).toEqual(expect.arrayContaining(waiting));
    expect(ids.filter((id) => lost.includes(id))).toEqual([]);
    await write(1);
    await uploaded();
    expect(await rollbacks()).toHaveLength(alarms);
  });

  it('refuses uploads even if it grew beyond the lost head after the restore', async () => {
    start();
    await write(1);
    await uploaded();
    const restore = await forge.backup();
    await write(2);
    await uploaded();
    const before = shown();
    await restore();
    // A newly started control plane seals; this one refuses, because it remembers the head of the ledger.
    const five = Array.from({ length: 5 }, () => anEvent());
    await sealElsewhere(gateway.services, tenantId, five);
    await write(1);
    await refused();
    // A process reports `rolled_back` if it verified the ledger before the ledger grew again.
    await told(before.position, 'rewritten', 'rolled_back');
  });

  it('refuses uploads if it was rewritten with the tenant’s own key', async () => {
    start();
    await write(4);
    await uploaded();
    const { position } = shown();
    await forge.rewriteFrom(1, ['"test.allow"', '"test.other"']);
    await forge.signHeads(await gateway.services.signingKeys.active(tenantId, 'checkpoint'));
    await write(1);
    await refused();
    await told(position, 'rewritten');
  });
});

describe('the acknowledgement that a sidecar presents', () => {
  it('is refused without an alarm if it was not signed by the tenant', async () => {
    const { ledger } = await uploadShowing(undefined);
    const lies: LedgerAcknowledgement[] = [
      { ...(ledger as LedgerAcknowledgement), position: 999_999 },
      { position: 999_999, tree_root: `sha256:${'c'.repeat(64)}`, jws: 'a..b' },
    ];
    for (const lie of lies) {
      expect((await refusalOf(uploadShowing(lie))).code).toBe('evidence.rolled_back');
    }
    expect(await rollbacks()).toEqual([]);
    expect(await messages()).toEqual([]);
    const events = await eventsOf(gateway.services, tenantId);
    expect(events.filter(({ type }) => type === 'sidecar.evidence_refused')).toHaveLength(1);
  });

  it('is presented only with the sidecar id under which it was received', async () => {
    start();
    await write(1);
    await uploaded();
    await stop();
    spool = openSpool();
    expect(spool.ledgerShownTo(sidecar.id)?.position).toBeGreaterThan(0);
    expect(spool.ledgerShownTo('sc_other')).toBeUndefined();
  });
});

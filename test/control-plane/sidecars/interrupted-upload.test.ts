import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connectControlPlane } from '../../../proxy/control-plane/client.ts';
import { Spool } from '../../../proxy/spool/spool.ts';
import { Uploader } from '../../../proxy/spool/uploader.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { until } from '../../support/base/until.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';
import { type CutProxy, startCutProxy } from '../../support/programs/cut-proxy.ts';

let gateway: Gateway;
let agentId: string;
let sidecar: EnrolledSidecar;
let cut: CutProxy;
let folder: string;
let spool: Spool;
let uploader: Uploader | undefined;
let warned: number;

beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('bot');
});
beforeEach(async () => {
  sidecar = await enrolledSidecar(gateway, agentId);
  cut = await startCutProxy(gateway.api.origin);
  folder = fs.mkdtempSync(join(tmpdir(), 'spool-'));
  spool = openSpool();
  warned = 0;
});
afterEach(async () => {
  cut.isDown = true;
  await uploader?.close();
  await spool.close();
  await cut.close();
  fs.rmSync(folder, { recursive: true });
});
afterAll(() => gateway.close());

const openSpool = () =>
  Spool.open({ folder, log: silentLog, fsync: false, segmentBytesMax: 5_000, tailBytesMax: 0 });

/** Starts a real uploader over a connection that can be interrupted. */
function startUploader(): Uploader {
  const { enrolment } = sidecar;
  const { clock } = gateway.services;
  const url = cut.url.replace(/\/$/, '');
  return new Uploader({
    spool,
    sidecarId: sidecar.id,
    key: enrolment.signingKey,
    upload: connectControlPlane({ url, enrolment, clock }).upload,
    log: { ...silentLog, warn: () => void warned++ },
  });
}

async function write(count: number): Promise<string[]> {
  const records = Array.from({ length: count }, () => sidecar.record({}, 'c2FsdA=='));
  await Promise.all(records.map((record) => spool.append(record)));
  return records.map(({ event }) => event.id);
}

async function rows() {
  return gateway.services.db.evidenceRow.findMany({
    where: { chainId: { in: [`sidecar:${sidecar.id}`, `agent:${agentId}`] } },
    orderBy: { position: 'asc' },
  });
}

async function sealed(): Promise<string[]> {
  return (await rows())
    .filter(({ source }) => source === `sidecar:${sidecar.id}`)
    .map(({ canonical }) => JSON.parse(canonical).id);
}

async function incidents(): Promise<string[]> {
  return (await rows())
    .map(({ type, chainId }) => (chainId === `sidecar:${sidecar.id}` ? type : ''))
    .filter((type) => type.startsWith('sidecar.evidence_'));
}

const untilEmpty = () =>
  until(() => spool.depth === 0, { withinMs: 30_000, what: 'the spool is empty' });

describe('an interrupted upload', () => {
  it('that did not arrive is repeated, and the records are sealed in order and only once', async () => {
    const ids = await write(30);
    cut.isDown = true;
    uploader = startUploader();
    await until(() => warned > 0);
    expect(await sealed()).toEqual([]);
    expect(spool.depth).toBe(30);
    cut.isDown = false;
    await untilEmpty();
    expect(await sealed()).toEqual(ids);
  });

  it('whose response is lost is repeated, and the records are sealed only once', async () => {
    const ids = await write(30);
    cut.loseAnswerTo('/v1/sidecars/evidence');
    uploader = startUploader();
    await untilEmpty();
    expect(warned).toBeGreaterThan(0);
    expect(await sealed()).toEqual(ids);
    expect(await incidents()).toEqual([]);
  });

  it('whose response is lost before the sidecar restarts causes neither a gap nor duplicates', async () => {
    const ids = await write(20);
    cut.loseAnswerTo('/v1/sidecars/evidence', 'stay-down');
    uploader = startUploader();
    await until(async () => (await sealed()).length === 20);
    await uploader.close();
    await spool.close();
    spool = openSpool();
    expect(spool.depth).toBe(20);
    const more = await write(5);
    cut.isDown = false;
    uploader = startUploader();
    await untilEmpty();
    expect(await sealed()).toEqual([...ids, ...more]);
    expect(await incidents()).toEqual([]);
  });
});

describe('a spool file that was changed on disk', () => {
  const segments = () =>
    fs
      .readdirSync(folder)
      .filter((name) => name.startsWith('segment-'))
      .sort()
      .map((name) => join(folder, name));

  async function upload(): Promise<void> {
    uploader = startUploader();
    await untilEmpty();
  }

  it('by an edit causes a gap incident; all records except the edited one are sealed', async () => {
    const ids = await write(4);
    const [file = ''] = segments();
    fs.writeFileSync(
      file,
      fs.readFileSync(file, 'utf8').replace(/("decision":)"allow"(.*ev_)/, '$1"deny"$2'),
    );
    ids.push(...(await write(4)));
    await upload();
    expect(await sealed()).toEqual(ids.slice(1));
    expect(await incidents()).toEqual(['sidecar.evidence_gap']);
    expect(fs.readdirSync(folder).some((name) => name.startsWith('damaged-'))).toBe(true);
  });

  it('by removing a segment causes an incident, and all other records are sealed', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 40; n++) ids.push(...(await write(1)));
    const [, second = ''] = segments();
    const lost = fs.readFileSync(second, 'utf8').trimEnd().split('\n').length;
    fs.rmSync(second);
    await upload();
    const arrived = await sealed();
    expect(arrived).toHaveLength(40 - lost);
    expect(arrived.at(-1)).toBe(ids.at(-1));
    expect(await incidents()).toEqual(['sidecar.evidence_gap']);
  });

  it('by truncation is detected from the sidecar’s reported number of records', async () => {
    const report = { versions: {}, age_ms: 1, spool_depth: 0, version: '1' };
    const { controlPlane } = sidecar;
    await write(10);
    await controlPlane.report({ ...report, spool_written: spool.written.record });
    await spool.close();
    const [file = ''] = segments();
    const lines = fs.readFileSync(file, 'utf8').split('\n');
    fs.writeFileSync(file, `${lines.slice(0, 6).join('\n')}\n`);
    spool = openSpool();
    await controlPlane.report({ ...report, spool_written: spool.written.record });
    const more = await write(3);
    await upload();
    expect((await sealed()).slice(-3)).toEqual(more);
    expect(await incidents()).toContain('sidecar.evidence_rewound');
  });

  it('by deletion after an upload causes an incident, and new records are sealed', async () => {
    await write(6);
    await upload();
    await uploader?.close();
    await write(2);
    await spool.close();
    fs.rmSync(folder, { recursive: true });
    spool = openSpool();
    const anew = await write(3);
    await upload();
    expect((await sealed()).slice(-3)).toEqual(anew);
    expect(await incidents()).toEqual(['sidecar.evidence_rewound']);
  });
});

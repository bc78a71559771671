import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { listSidecars } from '../../../shared/contract/sidecars.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import {
  type SpoolPosition,
  spoolHeadType,
  spoolLinkHash,
} from '../../../shared/ledger/spool-head.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
  spoolStart,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';
import { linesFrom } from '../../support/sidecar/spool-lines.ts';

let gateway: Gateway;
let agentId: string;
let sidecar: EnrolledSidecar;
let other: EnrolledSidecar;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('bot');
});
beforeEach(async () => {
  sidecar = await enrolledSidecar(gateway, agentId);
  other = await enrolledSidecar(gateway, agentId);
});
afterAll(() => gateway.close());

async function sealedOf({ id }: EnrolledSidecar): Promise<string[]> {
  const rows = await gateway.services.db.evidenceRow.findMany({
    where: { tenantId: 'default', source: `sidecar:${id}` },
    orderBy: { position: 'asc' },
  });
  return rows.map(({ canonical }) => JSON.parse(canonical).id);
}

async function incidentsOf({ id }: EnrolledSidecar): Promise<{ type: string; problem: string }[]> {
  const rows = await gateway.services.db.evidenceRow.findMany({
    where: { chainId: `sidecar:${id}`, source: 'control-plane' },
    orderBy: { position: 'asc' },
  });
  return rows
    .filter(({ type }) => type.startsWith('sidecar.evidence_'))
    .map(({ type, canonical }) => ({ type, problem: JSON.parse(canonical).data.problem }));
}

const typesOf = async (of: EnrolledSidecar) => (await incidentsOf(of)).map(({ type }) => type);

/** Sends lines as a spool stores them, under a head signed by the sidecar. */
async function send(lines: readonly string[], after: SpoolPosition = spoolStart, by = sidecar) {
  const hash = lines.reduce(spoolLinkHash, after.hash);
  const last = { record: after.record + lines.length, hash };
  const head = { sidecar: by.id, after, last };
  const jws = signJws(head, spoolHeadType, by.enrolment.signingKey);
  const { acked } = await by.controlPlane.upload(jws, linesFrom(lines));
  return { jws, last, acked };
}

const lineOf = (record: unknown) => canonicalJson(record);
const records = (count: number, by = sidecar) => Array.from({ length: count }, () => by.record());
const idsOf = (of: readonly { readonly event: { readonly id: string } }[]) =>
  of.map(({ event }) => event.id);

describe('a batch that was changed in transit is refused with a specific reason, and accepted when it is sent unchanged:', () => {
  const cases: [string, (lines: string[]) => string[], string][] = [
    [
      'a byte changed',
      ([one = '', ...rest]) => [one.replace('allow', 'allov'), ...rest],
      'the records are not those of the segment',
    ],
    [
      'a decision changed',
      ([one = '', ...rest]) => [one.replace('"allow"', '"deny"'), ...rest],
      'the records are not those of the segment',
    ],
    [
      'a record removed in the middle',
      ([one = '', , ...rest]) => [one, ...rest],
      'the segment counts other records',
    ],
    [
      'a record sent twice',
      ([one = '', ...rest]) => [one, one, ...rest],
      'the segment counts other records',
    ],
    [
      'two records swapped',
      ([one = '', two = '', ...rest]) => [two, one, ...rest],
      'the records are not those of the segment',
    ],
    ['the last record removed', (lines) => lines.slice(0, -1), 'the segment counts other records'],
    [
      'a space added',
      ([one = '', ...rest]) => [`${one} `, ...rest],
      'the records are not those of the segment',
    ],
  ];
  it.each(cases)('%s', async (_what, change, problem) => {
    const sent = records(4);
    const lines = sent.map(lineOf);
    const { jws, last } = sidecar.segment(sent);
    for (let tries = 0; tries < 2; tries++) {
      const refusal = await refusalOf(sidecar.controlPlane.upload(jws, linesFrom(change(lines))));
      expect(refusal.code).toBe('evidence.event_invalid');
    }
    expect(await incidentsOf(sidecar)).toEqual([{ type: 'sidecar.evidence_refused', problem }]);
    expect(await sealedOf(sidecar)).toEqual([]);
    const { acked } = await sidecar.controlPlane.upload(jws, linesFrom(lines));
    expect(acked).toEqual(last);
    expect(await sealedOf(sidecar)).toEqual(idsOf(sent));
  });

  it('a batch that a different sidecar signed is refused, and accepted later from the signing sidecar', async () => {
    const theirs = records(2, other);
    const { jws } = other.segment(theirs);
    const refusal = await refusalOf(
      sidecar.controlPlane.upload(jws, linesFrom(theirs.map(lineOf))),
    );
    expect(refusal.code).toBe('evidence.event_invalid');
    expect(await typesOf(sidecar)).toEqual(['sidecar.evidence_refused']);
    expect(await sealedOf(other)).toEqual([]);
    await other.controlPlane.upload(jws, linesFrom(theirs.map(lineOf)));
    expect(await sealedOf(other)).toEqual(idsOf(theirs));
  });
});

describe('a batch in an unexpected order', () => {
  it('is sealed once if it is sent many times concurrently', async () => {
    const sent = records(5);
    const { jws, last } = sidecar.segment(sent);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        sidecar.controlPlane.upload(jws, linesFrom(sent.map(lineOf))),
      ),
    );
    expect(answers.map(({ acked }) => acked)).toEqual(answers.map(() => last));
    expect(await sealedOf(sidecar)).toEqual(idsOf(sent));
    expect(await typesOf(sidecar)).toEqual([]);
  });

  it('changes nothing and causes no gap incident if it was already sent and is not the newest', async () => {
    const batches = [records(2), records(3), records(2)] as const;
    const first = await send(batches[0].map(lineOf));
    const second = await send(batches[1].map(lineOf), first.last);
    await sidecar.controlPlane.upload(first.jws, linesFrom(batches[0].map(lineOf)));
    await send(batches[2].map(lineOf), second.last);
    expect(await sealedOf(sidecar)).toEqual(batches.flatMap(idsOf));
    expect(await typesOf(sidecar)).toEqual([]);
  });

  it('is sealed once if it overlaps an earlier batch', async () => {
    const all = records(6).map(lineOf);
    const first = await send(all.slice(0, 4));
    await send(all);
    expect(first.acked.record).toBe(4);
    expect(await sealedOf(sidecar)).toHaveLength(6);
    expect(await typesOf(sidecar)).toEqual([]);
  });

  it('is sealed and reported as an incident if it restarts the record numbers with different records', async () => {
    await send(records(5).map(lineOf));
    const anew = records(2);
    const { last } = await send(anew.map(lineOf));
    const next = records(1);
    await send(next.map(lineOf), last);
    expect((await sealedOf(sidecar)).slice(5)).toEqual(idsOf([...anew, ...next]));
    expect(await typesOf(sidecar)).toEqual(['sidecar.evidence_rewound']);
  });

  it('is sealed and reported as an incident if its previous-record reference is not the last record received', async () => {
    const { last } = await send(records(2).map(lineOf));
    await send(records(1).map(lineOf), { record: last.record, hash: 'ab'.repeat(32) });
    expect(await sealedOf(sidecar)).toHaveLength(3);
    expect(await incidentsOf(sidecar)).toEqual([
      { type: 'sidecar.evidence_gap', problem: 'the records follow others' },
    ]);
  });

  it('is reported once as an incident if the sidecar’s next report counts fewer written records', async () => {
    const report = { versions: {}, age_ms: 1, spool_depth: 0, version: '1' };
    await sidecar.controlPlane.report({ ...report, spool_written: 40 });
    for (const spool_written of [12, 13, 14]) {
      await sidecar.controlPlane.report({ ...report, spool_written });
    }
    expect(await typesOf(sidecar)).toEqual(['sidecar.evidence_rewound']);
    await sidecar.controlPlane.report({ ...report, spool_written: 41 });
    expect(await typesOf(sidecar)).toHaveLength(1);
  });
});

describe('a record that the ledger cannot store', () => {
  const event = () => canonicalJson(sidecar.record());
  const cases: [string, () => string][] = [
    ['that is not JSON', () => 'not json'],
    ['that is empty', () => ''],
    ['that is a JSON value other than an object', () => '17'],
    ['with a duplicate key', () => event().replace('{', '{"event":1,')],
    [
      'whose keys are not in canonical order',
      () => JSON.stringify({ salt: 'cw==', ...sidecar.record() }),
    ],
    ['with endless nesting', () => `{"event":${'['.repeat(50_000)}${']'.repeat(50_000)}}`],
    ['with too deep nesting', () => lineOf(sidecar.record({ data: deep(80) }))],
    ['with a number that cannot be represented', () => event().replace('{}', '9007199254740993')],
    ['with U+0000', () => lineOf(sidecar.record({ data: { a: '\0' } }))],
    ['with an unpaired surrogate', () => event().replace('"pay"', '"\\ud800"')],
  ];
  it.each(cases)(
    'is quarantined and counted if it is a record %s; later records are sealed',
    async (_what, line) => {
      const lines = [lineOf(sidecar.record()), line(), lineOf(sidecar.record())];
      const { last, acked } = await send(lines);
      expect(acked).toEqual(last);
      await send([lineOf(sidecar.record())], last);
      expect(await sealedOf(sidecar)).toHaveLength(3);
      expect(await typesOf(sidecar)).toEqual(['sidecar.evidence_put_aside']);
      const { sidecars } = await gateway.owner.call(listSidecars);
      expect(sidecars.find(({ id }) => id === sidecar.id)).toMatchObject({
        evidence_incidents: 1,
        last_evidence_incident: { type: 'sidecar.evidence_put_aside' },
      });
      expect(sidecars.find(({ id }) => id === other.id)).toMatchObject({ evidence_incidents: 0 });
    },
  );

  it('is quarantined with its content if the same sidecar has already used its id', async () => {
    const [first, second] = [sidecar.record(), sidecar.record({ decision: 'deny' })];
    const forged = { event: { ...second.event, id: first.event.id } };
    const { last } = await send([first, forged, sidecar.record()].map(lineOf));
    await send([lineOf(sidecar.record())], last);
    expect(await sealedOf(sidecar)).toHaveLength(3);
    const [aside, ...more] = await incidentsOf(sidecar);
    expect(more).toEqual([]);
    expect(aside).toEqual({ type: 'sidecar.evidence_put_aside', problem: 'its id is taken' });
    const row = await gateway.services.db.evidenceRow.findFirst({
      where: { chainId: `sidecar:${sidecar.id}`, type: 'sidecar.evidence_put_aside' },
    });
    expect(JSON.parse(JSON.parse(row?.canonical ?? '').data.text)).toEqual(forged);
    const onLedger = await gateway.services.db.evidenceRow.count({
      where: { chainId: 'ledger:incidents', type: 'evidence.id_conflict' },
    });
    expect(onLedger).toBe(1);
  });

  const deep = (levels: number): never => (levels === 0 ? {} : { a: deep(levels - 1) }) as never;
});

describe('the namespace of event ids', () => {
  it('is separate for each sidecar: a record does not block another sidecar’s record with the same id', async () => {
    const honest = sidecar.record({}, 'aG9uZXN0');
    const thief = other.record({ id: honest.event.id }, 'dGhpZWY=');
    await send([lineOf(thief)], spoolStart, other);
    await send([lineOf(honest)]);
    expect(await sealedOf(other)).toEqual([honest.event.id]);
    expect(await sealedOf(sidecar)).toEqual([honest.event.id]);
    expect([...(await typesOf(sidecar)), ...(await typesOf(other))]).toEqual([]);
    const salts = await gateway.services.db.evidenceSalt.findMany({
      where: { eventId: { endsWith: honest.event.id } },
    });
    expect(salts.map(({ eventId }) => eventId).toSorted()).toEqual(
      [sidecar.id, other.id].map((id) => `sidecar:${id}/${honest.event.id}`).toSorted(),
    );
  });

  it('is separate for the control plane: a record does not replace the control plane’s event with the same id', async () => {
    const { db } = gateway.services;
    const enrolled = await db.evidenceRow.findFirstOrThrow({
      where: { chainId: `sidecar:${sidecar.id}`, type: 'sidecar.enrolled' },
    });
    await send([lineOf(sidecar.record({ id: enrolled.eventId }))]);
    expect(await sealedOf(sidecar)).toEqual([enrolled.eventId]);
    const found = await db.evidenceRow.findMany({ where: { eventId: enrolled.eventId } });
    expect(found.map(({ type }) => type)).toEqual(['sidecar.enrolled']);
  });
});

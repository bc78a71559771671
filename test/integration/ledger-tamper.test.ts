import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyChain } from '../../control-plane/ledger/verification/verify-chain.ts';
import { generateSigningKey, verificationKeys } from '../../shared/crypto/signing-key.ts';
import { eventHash } from '../../shared/ledger/canonical.ts';
import { verifyHead } from '../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../shared/ledger/merkle.ts';
import { type TestServices, testServices } from '../support/control-plane/services.ts';
import {
  anEvent,
  openLedger,
  signingKeysOf,
  type TestLedger,
  tamper,
} from '../support/ledger/ledger.ts';
import { freshDatabase } from '../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let ledger: TestLedger;

// Twelve alternating rows in two chains, sealed in four batches: row n of chain a is at position
// 2n-1.
beforeEach(async () => {
  database = await freshDatabase();
  ledger = await openLedger({ databaseUrl: database.url });
  for (let batch = 0; batch < 4; batch++) {
    const chains = ['a', 'b', 'a'].map((_, index) => ((batch * 3 + index) % 2 === 0 ? 'a' : 'b'));
    await ledger.sealAll(
      't',
      chains.map((name) => anEvent({ chain_id: `agent:${name}` })),
    );
  }
  expect(await ledger.verify('t')).toMatchObject({
    ok: true,
    events: 12,
    chains: 2,
    heads: 4,
    signatures: 4,
  });
});
afterEach(async () => {
  await ledger.close();
  await database.drop();
});

const damage = (...statements: readonly string[]) => tamper(database.url, ...statements);
const problems = async () => (await ledger.verify('t')).problems;
const at = (position: number) => `WHERE tenant_id = 't' AND position = ${position}`;
const fakeHash = `sha256:${'a'.repeat(64)}`;

interface StoredRow {
  readonly position: number;
  readonly prev_hash: string;
  readonly event_hash: string;
  readonly canonical: string;
  readonly chain_id: string;
}
const stored = async (): Promise<StoredRow[]> =>
  (
    await ledger.store.pool.query<StoredRow>(
      'SELECT position::int, prev_hash, event_hash, canonical, chain_id FROM evidence_row ORDER BY position',
    )
  ).rows;

describe('verification detects', () => {
  it('changed content, in the middle and at the end', async () => {
    await damage(
      `UPDATE evidence_row SET canonical = replace(canonical, '"allow"', '"deny"') ${at(5)}`,
    );
    expect(await problems()).toMatchObject([
      { kind: 'content_mismatch', position: 5, chain_id: 'agent:a' },
    ]);
    await damage(
      `UPDATE evidence_row SET canonical = replace(canonical, '"deny"', '"allow"') ${at(5)}`,
      `UPDATE evidence_row SET canonical = replace(canonical, '"amount":12', '"amount":99') ${at(12)}`,
    );
    expect(await problems()).toMatchObject([
      { kind: 'content_mismatch', position: 12, chain_id: 'agent:b' },
    ]);
  });

  it.each([
    [`decision = 'deny'`, 'decision'],
    [`reason_code = NULL`, 'reason_code'],
    [`tool = 'other'`, 'tool'],
    [`agent_id = '8'`, 'agent_id'],
    [`type = 'custom.x'`, 'type'],
    [`source = 'sidecar:x'`, 'source'],
    [`event_id = 'ev_other'`, 'id'],
    [`occurred_at = occurred_at + interval '1 ms'`, 'occurred_at'],
  ])('a filter column that differs from the text: %s', async (change, member) => {
    await damage(`UPDATE evidence_row SET ${change} ${at(5)}`);
    const message = `column ${member} differs from the canonical text`;
    expect(await problems()).toMatchObject([
      { kind: 'content_mismatch', position: 5, chain_id: 'agent:a', message },
    ]);
  });

  it.each([5, 12])('a changed hash of row %i', async (position) => {
    await damage(`UPDATE evidence_row SET event_hash = '${fakeHash}' ${at(position)}`);
    expect(await problems()).toMatchObject([
      { kind: 'hash_mismatch', position, chain_id: position === 5 ? 'agent:a' : 'agent:b' },
    ]);
  });

  it('a malformed hash', async () => {
    await damage(`UPDATE evidence_row SET event_hash = '' ${at(5)}`);
    expect(await problems()).toMatchObject([
      { kind: 'hash_mismatch', position: 5, chain_id: 'agent:a' },
    ]);
  });

  it.each([1, 5, 12])('a changed link of row %i', async (position) => {
    await damage(`UPDATE evidence_row SET prev_hash = '${fakeHash}' ${at(position)}`);
    expect(await problems()).toMatchObject([
      { kind: 'link_broken', position, chain_id: position === 12 ? 'agent:b' : 'agent:a' },
    ]);
  });

  it('a row that was replaced by another row with a matching hash', async () => {
    const row = (await stored())[4];
    const canonical = row?.canonical.replace('"allow"', '"deny"') ?? '';
    const hash = eventHash(row?.prev_hash ?? '', canonical);
    await damage(
      `UPDATE evidence_row SET canonical = '${canonical}', event_hash = '${hash}', decision = 'deny' ${at(5)}`,
    );
    // The row itself is consistent; its successor in the chain does not link to it.
    expect(await problems()).toMatchObject([
      { kind: 'link_broken', position: 7, chain_id: 'agent:a' },
    ]);
  });

  it.each([
    [1, 'agent:a'],
    [5, 'agent:a'],
    [6, 'agent:b'],
    [11, 'agent:a'],
  ])('a row that was removed from the middle: position %i', async (position, chainId) => {
    await damage(`DELETE FROM evidence_row ${at(position)}`);
    expect(await problems()).toMatchObject([{ kind: 'gap', position, chain_id: chainId }]);
  });

  it('a whole batch that was removed from the middle together with its signed head', async () => {
    await damage(
      `DELETE FROM evidence_row WHERE position BETWEEN 4 AND 6`,
      `DELETE FROM evidence_batch WHERE position = 6`,
    );
    const [first] = await problems();
    expect(first).toMatchObject({
      kind: 'gap',
      position: 4,
      message: expect.stringContaining('4 to 6'),
    });
  });

  it('the only row of a chain that was removed', async () => {
    await ledger.seal('t', anEvent({ chain_id: 'agent:c' }));
    await ledger.seal('t', anEvent({ chain_id: 'agent:a' }));
    await damage(`DELETE FROM evidence_row ${at(13)}`);
    expect(await problems()).toMatchObject([{ kind: 'gap', position: 13, chain_id: 'agent:c' }]);
  });

  it('removed rows at the end', async () => {
    await damage(`DELETE FROM evidence_row ${at(12)}`);
    expect(await problems()).toMatchObject([
      { kind: 'truncated', position: 12, chain_id: 'agent:b' },
    ]);
    await damage('DELETE FROM evidence_row WHERE position > 8');
    expect((await problems())[0]).toMatchObject({ kind: 'truncated', position: 9 });
    await damage('DELETE FROM evidence_row');
    expect((await problems())[0]).toMatchObject({ kind: 'truncated', position: 1 });
  });

  it('removed rows at the end, even with adapted head and chains, because signed heads still cover the rows', async () => {
    const rows = await stored();
    const tree = new Frontier();
    for (const { event_hash } of rows.slice(0, 10)) tree.append(leafOf(event_hash));
    const roots = tree.roots.map((root) => root.toString('hex')).join(',');
    await damage(
      'DELETE FROM evidence_row WHERE position > 10',
      `UPDATE evidence_head SET position = 10, frontier = '{${roots}}', tree_root = 'sha256:${tree.root().toString('hex')}'`,
      `UPDATE evidence_chain SET seq = 5, event_hash = '${rows[8]?.event_hash}' WHERE chain_id = 'agent:a'`,
      `UPDATE evidence_chain SET seq = 5, event_hash = '${rows[9]?.event_hash}' WHERE chain_id = 'agent:b'`,
    );
    expect(await problems()).toMatchObject([{ kind: 'truncated', position: 11 }]);
    // Without the last signed head, no head covers the remaining rows.
    await damage('DELETE FROM evidence_batch WHERE position > 10');
    expect(await problems()).toMatchObject([{ kind: 'unsigned', position: 10 }]);
  });

  it('two swapped rows', async () => {
    await damage(
      `UPDATE evidence_row SET position = 100 ${at(3)}`,
      `UPDATE evidence_row SET position = 3 ${at(7)}`,
      `UPDATE evidence_row SET position = 7 ${at(100)}`,
    );
    expect((await problems())[0]).toMatchObject({
      kind: 'reordered',
      position: 3,
      chain_id: 'agent:a',
    });
  });

  it('two swapped rows of different chains, even though each chain remains consistent', async () => {
    await damage(
      `UPDATE evidence_row SET position = 100 ${at(3)}`,
      `UPDATE evidence_row SET position = 3 ${at(4)}`,
      `UPDATE evidence_row SET position = 4 ${at(100)}`,
    );
    expect(await problems()).toMatchObject([
      { kind: 'reordered', position: 3, chain_id: 'agent:b' },
      { kind: 'reordered', position: 4, chain_id: 'agent:a' },
    ]);
  });

  it('a row that was appended with correct hash links', async () => {
    const last = (await stored()).filter(({ chain_id }) => chain_id === 'agent:a').at(-1);
    const canonical = last?.canonical
      .replace('"position":11', '"position":13')
      .replace('"seq":6', '"seq":7');
    const forged = canonical?.replace(/"id":"[^"]+"/, '"id":"ev_forged"') ?? '';
    const hash = eventHash(last?.event_hash ?? '', forged);
    await damage(
      `INSERT INTO evidence_row SELECT tenant_id, 13, chain_id, 7, event_hash, '${hash}', '${forged}', 'ev_forged',
         type, source, agent_id, tool, decision, reason_code, occurred_at, sealed_at FROM evidence_row ${at(11)}`,
    );
    expect((await problems())[0]).toMatchObject({
      kind: 'inserted',
      position: 13,
      chain_id: 'agent:a',
    });
    // Head and chain are adapted, but unsigned.
    const tree = new Frontier();
    for (const { event_hash } of await stored()) tree.append(leafOf(event_hash));
    const roots = tree.roots.map((root) => root.toString('hex')).join(',');
    await damage(
      `UPDATE evidence_head SET position = 13, frontier = '{${roots}}', tree_root = 'sha256:${tree.root().toString('hex')}'`,
      `UPDATE evidence_chain SET seq = 7, event_hash = '${hash}' WHERE chain_id = 'agent:a'`,
    );
    expect(await problems()).toMatchObject([{ kind: 'unsigned', position: 13 }]);
    // A process that starts in this state signs nothing.
    const { signingKeys } = ledger;
    const begun = await openLedger({ databaseUrl: database.url, signingKeys });
    const sealing = begun.sealKept('t', [anEvent({ chain_id: 'agent:z' })]);
    expect(await sealing).toMatchObject([{ reason: { cause: { code: 'evidence.fork' } } }]);
    await begun.close();
    expect(await problems()).toMatchObject([{ kind: 'unsigned', position: 13 }]);
  });

  it('a row that was inserted between two existing rows', async () => {
    await damage(
      'UPDATE evidence_row SET position = position + 1000 WHERE position >= 5',
      'UPDATE evidence_row SET position = position - 999 WHERE position > 1000',
      `INSERT INTO evidence_row SELECT tenant_id, 5, 'agent:new', 1, prev_hash, event_hash, canonical, 'ev_forged',
         type, source, agent_id, tool, decision, reason_code, occurred_at, sealed_at FROM evidence_row ${at(1)}`,
    );
    expect((await problems())[0]).toMatchObject({ position: 5, chain_id: 'agent:new' });
  });

  it('a whole ledger that was rewritten with correct hashes, because the signed heads differ', async () => {
    const chains = new Map<string, string>();
    const tree = new Frontier();
    for (const row of await stored()) {
      const canonical = row.canonical.replace('"amount":12', '"amount":13');
      const prev = chains.get(row.chain_id) ?? row.prev_hash;
      const hash = eventHash(prev, canonical);
      chains.set(row.chain_id, hash);
      tree.append(leafOf(hash));
      await damage(
        `UPDATE evidence_row SET canonical = '${canonical}', prev_hash = '${prev}', event_hash = '${hash}' ${at(row.position)}`,
      );
    }
    const roots = tree.roots.map((root) => root.toString('hex')).join(',');
    const root = `sha256:${tree.root().toString('hex')}`;
    await damage(
      `UPDATE evidence_head SET frontier = '{${roots}}', tree_root = '${root}'`,
      ...[...chains].map(
        ([id, hash]) => `UPDATE evidence_chain SET event_hash = '${hash}' WHERE chain_id = '${id}'`,
      ),
    );
    expect((await problems())[0]).toMatchObject({ kind: 'head_mismatch', position: 3 });
    // The roots are adapted as well, but not the signatures over them.
    await damage(
      `DELETE FROM evidence_batch WHERE position < 12`,
      `UPDATE evidence_batch SET tree_root = '${root}'`,
    );
    expect(await problems()).toMatchObject([{ kind: 'signature_invalid', position: 12 }]);
  });

  it('a stored head of a chain, or of the ledger, that differs from the rows', async () => {
    await damage(`UPDATE evidence_chain SET event_hash = '${fakeHash}' WHERE chain_id = 'agent:b'`);
    expect(await problems()).toMatchObject([{ kind: 'head_mismatch', chain_id: 'agent:b' }]);
    await damage(`DELETE FROM evidence_chain WHERE chain_id = 'agent:b'`);
    expect(await problems()).toMatchObject([{ kind: 'head_mismatch', chain_id: 'agent:b' }]);
  });

  it('a stored head whose Merkle tree differs from the tree of the rows', async () => {
    await damage(`UPDATE evidence_head SET tree_root = '${fakeHash}'`);
    expect(await problems()).toMatchObject([{ kind: 'head_mismatch', position: 12 }]);
  });

  it('a batch row whose time was changed so that a filter would miss events', async () => {
    await damage(
      `UPDATE evidence_batch SET latest_at = latest_at - interval '1 hour' WHERE position = 6`,
    );
    expect(await problems()).toMatchObject([{ kind: 'content_mismatch', position: 6 }]);
  });

  it('rows that were moved from another tenant to the verified tenant', async () => {
    await damage(
      `UPDATE evidence_row SET tenant_id = 'u'`,
      `UPDATE evidence_chain SET tenant_id = 'u'`,
    );
    expect((await ledger.verify('u')).problems[0]).toMatchObject({
      kind: 'content_mismatch',
      position: 1,
    });
  });

  it('invalid JSON with a matching hash', async () => {
    const row = (await stored())[11];
    const hash = eventHash(row?.prev_hash ?? '', 'nonsense');
    await damage(
      `UPDATE evidence_row SET canonical = 'nonsense', event_hash = '${hash}' ${at(12)}`,
      `UPDATE evidence_chain SET event_hash = '${hash}' WHERE chain_id = 'agent:b'`,
    );
    expect((await problems())[0]).toMatchObject({ kind: 'content_mismatch', position: 12 });
  });
});

describe('a failed verification', () => {
  let services: TestServices;
  beforeEach(async () => {
    const { signingKeys } = ledger;
    services = { ...(await testServices({ databaseUrl: database.url })), signingKeys, ledger };
  });
  afterEach(() => services.close());

  it('is sealed as an incident with the problem, and the verification report is returned', async () => {
    await damage(
      `UPDATE evidence_row SET canonical = replace(canonical, '"allow"', '"deny"') ${at(5)}`,
    );
    const report = await verifyChain(services, 't');
    expect(report).toMatchObject({
      ok: false,
      events: 12,
      problem: { kind: 'content_mismatch', position: 5 },
    });
    const incident = (await stored()).at(-1);
    expect(JSON.parse(incident?.canonical ?? '')).toMatchObject({
      type: 'chain_verification_failed',
      chain_id: 'ledger:incidents',
      data: { events: 12, problem: { kind: 'content_mismatch', position: 5, chain_id: 'agent:a' } },
    });
  });

  it('is reported even if no event can be sealed', async () => {
    await damage('UPDATE evidence_head SET position = 5');
    expect(await verifyChain(services, 't')).toMatchObject({
      ok: false,
      problem: { kind: 'inserted' },
    });
    await expect(ledger.seal('t', anEvent())).rejects.toMatchObject({
      code: 'evidence.seal_failed',
    });
  });
});

describe('a rotated signing key', () => {
  it('verifies the heads that it signed', async () => {
    const old = await ledger.signingKeys.active('t', 'checkpoint');
    const fresh = generateSigningKey();
    const keys = {
      ...signingKeysOf(fresh),
      publicKeys: async () => [fresh.publicJwk, old.publicJwk],
    };
    const rotated = await openLedger({ databaseUrl: database.url, signingKeys: keys });
    await rotated.seal('t', anEvent());
    expect(await rotated.verify('t')).toMatchObject({ ok: true, signatures: 5 });
    const head = { tenant: 't', position: 1, tree_root: fakeHash };
    expect(verifyHead(head, 'a..b', verificationKeys([old.publicJwk]))).toBe(false);
    await rotated.close();
  });
});

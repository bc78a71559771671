import { describe, expect, it } from 'vitest';
import { generateSigningKey, verificationKeys } from '../../../../shared/crypto/signing-key.ts';
import { canonicalEvent, eventHash } from '../../../../shared/ledger/canonical.ts';
import { eventColumns } from '../../../../shared/ledger/columns.ts';
import { genesisHash } from '../../../../shared/ledger/event.ts';
import { signHead } from '../../../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../../../shared/ledger/merkle.ts';
import type { Anchor } from '../../../../shared/ledger/verification/ledger-source.ts';
import type { LedgerRow } from '../../../../shared/ledger/verification/row-check.ts';
import { verifyLedger } from '../../../../shared/ledger/verification/verify.ts';

const key = generateSigningKey();
const keys = verificationKeys([key.publicJwk]);
const noKeys = verificationKeys([]);

interface BuiltLedger {
  readonly rows: LedgerRow[];
  readonly anchors: Anchor[];
  readonly end: {
    readonly head: { readonly position: number; readonly treeRoot: string };
    readonly chainEnds: { chainId: string; seq: number; hash: string }[];
  };
}

/** Builds a ledger as sealing would create it, with a signed head after every `batch` rows. */
function build(size: number, { chains = 3, batch = 4 } = {}): BuiltLedger {
  const tree = new Frontier();
  const ends = new Map<string, { seq: number; hash: string }>();
  const rows: LedgerRow[] = [];
  const anchors: Anchor[] = [];
  const treeRoot = () => `sha256:${tree.root().toString('hex')}`;
  for (let position = 1; position <= size; position++) {
    const chainId = `agent:${position % chains}`;
    const { seq, hash: prevHash } = ends.get(chainId) ?? { seq: 0, hash: genesisHash };
    const event = {
      id: `ev_${position}`,
      type: 'decision',
      chain_id: chainId,
      occurred_at: '2026-07-01T09:00:00.000Z',
      source: 'control-plane',
      decision: 'allow',
      data: { n: position },
    };
    const canonical = canonicalEvent(event, { tenantId: 't', position, seq: seq + 1 });
    const hash = eventHash(prevHash, canonical);
    ends.set(chainId, { seq: seq + 1, hash });
    tree.append(leafOf(hash));
    const columns = eventColumns(event);
    rows.push({ position, chainId, seq: seq + 1, prevHash, eventHash: hash, canonical, columns });
    if (position % batch === 0 || position === size) {
      const head = { tenant: 't', position, tree_root: treeRoot() };
      anchors.push({ position, treeRoot: head.tree_root, jws: signHead(head, key) });
    }
  }
  const chainEnds = Array.from(ends, ([chainId, end]) => ({ chainId, ...end }));
  return { rows, anchors, end: { head: { position: size, treeRoot: treeRoot() }, chainEnds } };
}

async function* paged({ rows, anchors }: BuiltLedger, pageRows: number) {
  let from = 0;
  for (let at = 0; at < rows.length; at += pageRows) {
    const page = rows.slice(at, at + pageRows);
    const isLast = at + pageRows >= rows.length;
    const upTo = isLast ? Number.POSITIVE_INFINITY : (page.at(-1)?.position ?? 0);
    const after = from;
    yield {
      rows: page,
      anchors: anchors.filter(({ position }) => position > after && position <= upTo),
    };
    from = upTo;
  }
}

const verify = (built: BuiltLedger, { pageRows = 5, withKeys = keys, signaturesFrom = 0 } = {}) =>
  verifyLedger({
    tenantId: 't',
    keys: withKeys,
    pages: paged(built, pageRows),
    signaturesFrom,
    end: () => built.end,
  });

describe('verifying a ledger in pages', () => {
  it.each([1, 2, 5, 7, 100])('has the same result for pages of %i rows', async (pageRows) => {
    const built = build(23);
    expect(await verify(built, { pageRows })).toEqual({
      ok: true,
      events: 23,
      chains: 3,
      heads: 6,
      checkpoints: 0,
      signatures: 6,
      position: 23,
      tree_root: built.end.head.treeRoot,
      problem: null,
      problems: [],
    });
    const [damaged] = built.rows.splice(9, 1);
    const report = await verify(built, { pageRows });
    expect(report.problems).toMatchObject([
      { kind: 'gap', position: 10, chain_id: damaged?.chainId },
    ]);
  });

  it('accepts an empty ledger', async () => {
    expect(await verify(build(0))).toMatchObject({ ok: true, events: 0, position: 0 });
  });

  it('needs neither database columns nor keys to verify the rows of an export', async () => {
    const built = build(12);
    const bare = built.rows.map(({ columns: _, ...row }) => row);
    const report = await verify({ ...built, rows: bare }, { withKeys: noKeys });
    expect(report).toMatchObject({ ok: true, heads: 3, signatures: 0 });
  });

  it('detects that a ledger does not match an earlier checkpoint', async () => {
    const built = build(12);
    const kept: Anchor = { position: 12, treeRoot: built.end.head.treeRoot };
    const shorter = build(8);
    const report = await verify({ ...shorter, anchors: [...shorter.anchors, kept] });
    expect(report.problems).toMatchObject([{ kind: 'truncated', position: 9 }]);
    const other = build(12, { chains: 4 });
    const forked = await verify({ ...other, anchors: [...other.anchors, kept] });
    expect(forked.problems).toMatchObject([{ kind: 'head_mismatch', position: 12 }]);
  });

  it('verifies only the requested signatures and, in any case, the newest signature', async () => {
    const built = build(40);
    expect(await verify(built, { signaturesFrom: 36 })).toMatchObject({
      ok: true,
      heads: 10,
      signatures: 2,
    });
    const forged = built.anchors.map((anchor) => ({ ...anchor, jws: built.anchors[0]?.jws }));
    const report = await verify({ ...built, anchors: forged }, { signaturesFrom: 36 });
    expect(report.problems).toMatchObject([
      { kind: 'signature_invalid', position: 36 },
      { kind: 'signature_invalid', position: 40 },
    ]);
  });

  it('reports the first problem of each chain, by position, and at most a hundred problems', async () => {
    const built = build(600, { chains: 150 });
    const rows = built.rows.map((row) => ({
      ...row,
      canonical: row.canonical.replace('allow', 'deny'),
    }));
    const report = await verify({ ...built, rows });
    expect(report.problems).toHaveLength(100);
    expect(report.problem).toEqual(report.problems[0]);
    expect(report.problems.map(({ position }) => position)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
  });

  it.each(['position', 'seq', 'chainId', 'prevHash', 'eventHash', 'canonical'] as const)(
    'detects a change of %s in any row',
    async (member) => {
      for (let at = 0; at < 14; at++) {
        const built = build(14);
        const row = built.rows[at];
        if (row === undefined) throw new Error('no row');
        const value = row[member];
        const changed = typeof value === 'number' ? value + 1 : `${value.slice(0, -3)}0"}`;
        built.rows[at] = { ...row, [member]: changed };
        const report = await verify(built);
        expect(report.ok, `${member} of row ${at + 1}`).toBe(false);
        expect(report.problem?.position, `${member} of row ${at + 1}`).toBeLessThanOrEqual(at + 2);
      }
    },
  );
});

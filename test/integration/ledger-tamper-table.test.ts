import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointNow } from '../../control-plane/ledger/tree/checkpoint.ts';
import { verifyChain } from '../../control-plane/ledger/verification/verify-chain.ts';
import { generateSigningKey, type SigningKey } from '../../shared/crypto/signing-key.ts';
import { eventHash } from '../../shared/ledger/canonical.ts';
import { problemKinds } from '../../shared/ledger/verification/problem.ts';
import { type TestServices, testServices } from '../support/control-plane/services.ts';
import { type Forger, forger } from '../support/ledger/forged-ledger.ts';
import { anEvent, sealElsewhere } from '../support/ledger/ledger.ts';
import { freshDatabase } from '../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
});
afterAll(async () => {
  await services.close();
  await database.drop();
});

let tenants = 0;

/** Seals a batch of three rows. Chains a and b alternate, so row n of chain a is at position 2n-1. */
async function sealThree(tenantId: string, first: number): Promise<void> {
  const names = [0, 1, 2].map((n) => ((first + n) % 2 === 1 ? 'a' : 'b'));
  await services.ledger.sealAll(
    tenantId,
    names.map((name) => anEvent({ chain_id: `agent:${name}` })),
  );
}

/**
 * Creates a ledger of twelve rows, with checkpoints after six and twelve rows. An auditor keeps the second.
 */
async function aLedger(): Promise<Stage> {
  const tenantId = `tenant_${++tenants}`;
  await sealThree(tenantId, 1);
  await sealThree(tenantId, 4);
  await checkpointNow(services, tenantId);
  const forge = forger(database.url, services.pool, tenantId);
  const restore = await forge.backup();
  await sealThree(tenantId, 7);
  await sealThree(tenantId, 10);
  const { note } = await checkpointNow(services, tenantId);
  const key = await services.signingKeys.active(tenantId, 'checkpoint');
  return { tenantId, forge, restore, note, key, own: `tenant_id = '${tenantId}'` };
}

interface Stage {
  readonly tenantId: string;
  readonly forge: Forger;
  readonly restore: () => Promise<void>;
  readonly note: string;
  /** The tenant's own checkpoint key. */
  readonly key: SigningKey;
  readonly own: string;
}

type Damage = (stage: Stage) => Promise<unknown>;

interface Found {
  readonly kind: (typeof problemKinds)[number];
  readonly position: number;
  readonly chain_id: string | null;
  /** Only an external checkpoint reveals the damage; without one, the ledger appears intact. */
  readonly byCheckpoint?: boolean;
}

const fakeHash = `sha256:${'a'.repeat(64)}`;
const update =
  (change: string, position: number): Damage =>
  ({ forge, own }) =>
    forge.run(`UPDATE evidence_row SET ${change} WHERE ${own} AND position = ${position}`);

const found = (
  kind: Found['kind'],
  position: number,
  chain_id: string | null,
  byCheckpoint = false,
): Found => ({ kind, position, chain_id, byCheckpoint });

/**
 * For each damage: its name in the table of control-plane/ledger/README.md, a function that causes it, and
 * the problem that verification reports.
 */
const damages: readonly (readonly [what: string, damage: Damage, found: Found])[] = [
  [
    'the content of a row changed',
    update(`canonical = replace(canonical, '"allow"', '"deny"')`, 5),
    found('content_mismatch', 5, 'agent:a'),
  ],
  [
    'a filter column changed, the text unchanged',
    update(`decision = 'deny'`, 6),
    found('content_mismatch', 6, 'agent:b'),
  ],
  [
    'the hash of a row changed',
    update(`event_hash = '${fakeHash}'`, 5),
    found('hash_mismatch', 5, 'agent:a'),
  ],
  [
    'the link of a row changed',
    update(`prev_hash = '${fakeHash}'`, 5),
    found('link_broken', 5, 'agent:a'),
  ],
  [
    'a row changed, its hash adapted',
    async ({ forge, tenantId }) => {
      const { rows } = await services.pool.query(
        'SELECT prev_hash, canonical FROM evidence_row WHERE tenant_id = $1 AND position = 5',
        [tenantId],
      );
      const canonical = rows[0].canonical.replace('"amount":12', '"amount":13');
      const hash = eventHash(rows[0].prev_hash, canonical);
      await forge.run(
        `UPDATE evidence_row SET canonical = '${canonical}', event_hash = '${hash}'
          WHERE tenant_id = '${tenantId}' AND position = 5`,
      );
    },
    found('link_broken', 7, 'agent:a'),
  ],
  [
    'a row removed from the middle',
    ({ forge, own }) => forge.run(`DELETE FROM evidence_row WHERE ${own} AND position = 5`),
    found('gap', 5, 'agent:a'),
  ],
  [
    'the last rows removed',
    ({ forge, own }) => forge.run(`DELETE FROM evidence_row WHERE ${own} AND position > 11`),
    found('truncated', 12, 'agent:b'),
  ],
  [
    'the last rows removed, head and chains adapted',
    ({ forge }) => forge.cutAfter(10),
    found('truncated', 11, null),
  ],
  [
    'rows reordered',
    ({ forge, own }) =>
      forge.run(
        `UPDATE evidence_row SET position = 100 WHERE ${own} AND position = 3`,
        `UPDATE evidence_row SET position = 3 WHERE ${own} AND position = 4`,
        `UPDATE evidence_row SET position = 4 WHERE ${own} AND position = 100`,
      ),
    found('reordered', 3, 'agent:b'),
  ],
  [
    'a row appended with correct links',
    async ({ forge, tenantId, own }) => {
      const { rows } = await services.pool.query(
        'SELECT event_hash, canonical FROM evidence_row WHERE tenant_id = $1 AND position = 11',
        [tenantId],
      );
      const canonical = rows[0].canonical
        .replace('"position":11', '"position":13')
        .replace('"seq":6', '"seq":7')
        .replace(/"id":"[^"]+"/, '"id":"ev_forged"');
      const hash = eventHash(rows[0].event_hash, canonical);
      await forge.run(
        `INSERT INTO evidence_row SELECT tenant_id, 13, chain_id, 7, event_hash, '${hash}',
                '${canonical}', 'ev_forged', type, source, agent_id, tool, decision, reason_code,
                occurred_at, sealed_at FROM evidence_row WHERE ${own} AND position = 11`,
      );
    },
    found('inserted', 13, 'agent:a'),
  ],
  [
    'the end of a chain changed',
    ({ forge, own }) =>
      forge.run(
        `UPDATE evidence_chain SET event_hash = '${fakeHash}' WHERE ${own} AND chain_id = 'agent:b'`,
      ),
    found('head_mismatch', 12, 'agent:b'),
  ],
  [
    'the ends of all chains removed',
    ({ forge, own }) => forge.run(`DELETE FROM evidence_chain WHERE ${own}`),
    found('head_mismatch', 12, 'agent:a'),
  ],
  [
    'the head and every signature removed',
    ({ forge, own }) =>
      forge.run(
        ...['head', 'batch', 'checkpoint'].map(
          (name) => `DELETE FROM evidence_${name} WHERE ${own}`,
        ),
      ),
    found('inserted', 1, 'agent:b'),
  ],
  [
    'a row moved before the first position',
    ({ forge, own }) =>
      forge.run(
        'ALTER TABLE evidence_row DROP CONSTRAINT IF EXISTS evidence_row_position_check',
        `INSERT INTO evidence_row SELECT tenant_id, -1, chain_id, 99, prev_hash, event_hash, canonical,
                'ev_before', type, source, agent_id, tool, decision, reason_code, occurred_at, sealed_at
           FROM evidence_row WHERE ${own} AND position = 5`,
      ),
    found('reordered', -1, 'agent:a'),
  ],
  [
    'all tables of two tenants swapped',
    async ({ forge, tenantId }) => {
      const other = await aLedger();
      await forge.run(
        ...['row', 'head', 'chain', 'batch', 'checkpoint'].flatMap((name) =>
          [
            ['swap', tenantId],
            [tenantId, other.tenantId],
            [other.tenantId, 'swap'],
          ].map(
            ([to, from]) =>
              `UPDATE evidence_${name} SET tenant_id = '${to}' WHERE tenant_id = '${from}'`,
          ),
        ),
      );
    },
    found('content_mismatch', 1, 'agent:a'),
  ],
  [
    'all rows from one on rewritten, signed heads unchanged',
    ({ forge }) => forge.rewriteFrom(8),
    found('head_mismatch', 9, null),
  ],
  [
    'all rows from one on rewritten, signed heads removed',
    async ({ forge }) => {
      await forge.rewriteFrom(8);
      await forge.removeHeads(8);
    },
    found('unsigned', 7, null),
  ],
  [
    'all rows from one on rewritten, heads signed with another key',
    async ({ forge }) => {
      await forge.rewriteFrom(8);
      await forge.signHeads(generateSigningKey());
    },
    found('signature_invalid', 3, null),
  ],
  [
    'all rows from one on rewritten, heads signed with the tenant’s own key',
    async ({ forge, key }) => {
      await forge.rewriteFrom(8);
      await forge.signHeads(key);
    },
    found('rewritten', 7, null),
  ],
  [
    'all rows from one on rewritten, heads signed with the tenant’s own key, stored checkpoints removed',
    async ({ forge, key }) => {
      await forge.rewriteFrom(8);
      await forge.signHeads(key);
      await forge.removeCheckpoints();
    },
    found('rewritten', 1, null, true),
  ],
  [
    'an unsigned stored checkpoint',
    ({ forge, own }) =>
      forge.run(
        `UPDATE evidence_checkpoint SET note = replace(note, E'\\n12\\n', E'\\n11\\n')
          WHERE ${own} AND size = 12`,
      ),
    found('signature_invalid', 12, null),
  ],
  ['an older backup restored', ({ restore }) => restore(), found('rolled_back', 7, null, true)],
  [
    'an older backup restored, new events appended',
    async ({ restore, tenantId }) => {
      await restore();
      // Another process seals the events, because this process remembers the head of the ledger and would
      // refuse to seal them.
      const nine = Array.from({ length: 9 }, () => anEvent({ chain_id: 'agent:a' }));
      await sealElsewhere(services, tenantId, nine);
    },
    found('rewritten', 7, 'agent:a', true),
  ],
];

describe('verification detects and locates', () => {
  it.each(damages)('%s', async (_what, damage, { byCheckpoint = false, ...expected }) => {
    const stage = await aLedger();
    await damage(stage);
    const report = await verifyChain(services, stage.tenantId);
    if (byCheckpoint) {
      // No data in the database reveals the damage.
      expect(report).toMatchObject({ ok: true, problem: null });
      await stage.forge.run(`DELETE FROM evidence_verification WHERE ${stage.own}`);
    }
    const { note: checkpoint } = stage;
    const second = byCheckpoint
      ? await verifyChain(services, stage.tenantId, { checkpoint })
      : report;
    expect(second.problem).toMatchObject(expected);
    expect(second.ok).toBe(false);
  });

  it('no problem in an unchanged ledger, with and without a checkpoint', async () => {
    const { tenantId, note: checkpoint } = await aLedger();
    expect(await verifyChain(services, tenantId)).toMatchObject({ ok: true, checkpoints: 2 });
    const report = await verifyChain(services, tenantId, { checkpoint });
    // Two checkpoints are stored, one is given, and one records how far the first verification got.
    expect(report).toMatchObject({ ok: true, checkpoints: 4, problems: [] });
  });
});

describe('the table of damages in the README', () => {
  const path = join(import.meta.dirname, '../../control-plane/ledger/README.md');
  const lines = readFileSync(path, 'utf8').split('\n');
  const start = lines.indexOf('| What was done | Reported as | Found by |');
  const table = lines.slice(start + 2, lines.indexOf('', start));

  it('equals the table of these tests', () => {
    expect(table).toEqual(
      damages.map(
        ([what, , { kind, byCheckpoint = false }]) =>
          `| ${what} | \`${kind}\` | ${byCheckpoint ? 'a checkpoint from outside' : 'the ledger itself'} |`,
      ),
    );
  });

  it('contains every kind of problem', () => {
    const kinds = new Set(damages.map(([, , { kind }]) => kind));
    expect(problemKinds.filter((kind) => !kinds.has(kind))).toEqual([]);
  });
});

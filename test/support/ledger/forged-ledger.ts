import type { Pool } from 'pg';
import type { SigningKey } from '../../../shared/crypto/signing-key.ts';
import { eventHash } from '../../../shared/ledger/canonical.ts';
import { genesisHash } from '../../../shared/ledger/event.ts';
import { signHead } from '../../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../../shared/ledger/merkle.ts';
import { tamper } from './ledger.ts';

interface StoredRow {
  readonly position: number;
  readonly chain_id: string;
  readonly event_hash: string;
  readonly canonical: string;
}

/**
 * Changes that an attacker with full access to the database can make to one tenant's ledger.
 * Without a key, the attacker cannot sign.
 */
export interface Forger {
  run(...statements: readonly string[]): Promise<void>;
  /**
   * Rewrites all rows after and including a position, with matching hashes, links, tree and heads.
   */
  rewriteFrom(position: number, change?: readonly [from: string, to: string]): Promise<void>;
  /** Removes the rows after a position, and adapts the ledger's heads to the remaining rows. */
  cutAfter(position: number): Promise<void>;
  /** Signs the head of every batch again. */
  signHeads(key: SigningKey): Promise<void>;
  removeHeads(from: number): Promise<void>;
  removeCheckpoints(): Promise<void>;
  /** Copies all evidence tables. Returns a function that restores them. */
  backup(): Promise<() => Promise<void>>;
}

const evidenceTables = [
  'evidence_row',
  'evidence_head',
  'evidence_chain',
  'evidence_batch',
  'evidence_checkpoint',
  'evidence_node',
  'evidence_verification',
];
let backups = 0;

export function forger(databaseUrl: string, pool: Pool, tenantId: string): Forger {
  const run = (...statements: readonly string[]) => tamper(databaseUrl, ...statements);
  const own = `tenant_id = '${tenantId}'`;
  const rows = async () =>
    (
      await pool.query<StoredRow>(
        `SELECT position::int, chain_id, event_hash, canonical FROM evidence_row
          WHERE ${own} ORDER BY position`,
      )
    ).rows;
  const makeEndsFit = async () => {
    const tree = new Frontier();
    const ends = new Map<string, { seq: number; hash: string }>();
    for (const { chain_id, event_hash } of await rows()) {
      tree.append(leafOf(event_hash));
      ends.set(chain_id, { seq: (ends.get(chain_id)?.seq ?? 0) + 1, hash: event_hash });
    }
    const frontier = tree.roots.map((root) => root.toString('hex')).join(',');
    await run(
      `UPDATE evidence_head SET position = ${tree.size}, frontier = '{${frontier}}',
              tree_root = '${rootOf(tree)}' WHERE ${own}`,
      `DELETE FROM evidence_chain WHERE ${own}`,
      ...Array.from(
        ends,
        ([id, { seq, hash }]) =>
          `INSERT INTO evidence_chain VALUES ('${tenantId}', '${id}', ${seq}, '${hash}')`,
      ),
    );
  };
  return {
    run,
    async rewriteFrom(position, [from, to] = ['"amount":12', '"amount":13']) {
      const ends = new Map<string, string>();
      const statements: string[] = [];
      for (const row of await rows()) {
        const prev = ends.get(row.chain_id) ?? genesisHash;
        const isNew = row.position >= position;
        const canonical = isNew ? row.canonical.replace(from, to) : row.canonical;
        const hash = eventHash(prev, canonical);
        ends.set(row.chain_id, hash);
        if (!isNew) continue;
        statements.push(
          `UPDATE evidence_row SET canonical = '${canonical}', prev_hash = '${prev}',
                  event_hash = '${hash}' WHERE ${own} AND position = ${row.position}`,
        );
      }
      await run(...statements);
      await makeEndsFit();
    },
    async cutAfter(position) {
      await run(`DELETE FROM evidence_row WHERE ${own} AND position > ${position}`);
      await makeEndsFit();
    },
    async signHeads(key) {
      const tree = new Frontier();
      const statements: string[] = [];
      for (const { position, event_hash } of await rows()) {
        tree.append(leafOf(event_hash));
        const jws = signHead({ tenant: tenantId, position, tree_root: rootOf(tree) }, key);
        statements.push(
          `UPDATE evidence_batch SET tree_root = '${rootOf(tree)}', kid = '${key.kid}', jws = '${jws}'
            WHERE ${own} AND position = ${position}`,
        );
      }
      await run(...statements);
    },
    removeHeads: (from) => run(`DELETE FROM evidence_batch WHERE ${own} AND position >= ${from}`),
    removeCheckpoints: () => run(`DELETE FROM evidence_checkpoint WHERE ${own}`),
    async backup() {
      const name = `backup_${++backups}`;
      // Copies in one transaction under a lock, even while events are being sealed.
      const quietly = [`LOCK TABLE ${evidenceTables.join(', ')} IN SHARE ROW EXCLUSIVE MODE`];
      const atOnce = (statements: readonly string[]) =>
        run('BEGIN', ...quietly, ...statements, 'COMMIT');
      await atOnce(
        evidenceTables.map(
          (table) => `CREATE TABLE ${name}_${table} AS SELECT * FROM ${table} WHERE ${own}`,
        ),
      );
      return () =>
        atOnce(
          evidenceTables.flatMap((table) => [
            `DELETE FROM ${table} WHERE ${own}`,
            `INSERT INTO ${table} SELECT * FROM ${name}_${table}`,
          ]),
        );
    },
  };
}

function rootOf(tree: Frontier): string {
  return `sha256:${tree.root().toString('hex')}`;
}

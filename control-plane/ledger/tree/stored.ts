import { emptyRoot } from '../../../shared/ledger/merkle.ts';
import type { Queryable } from '../sealing/read-state.ts';

/** A checkpoint as stored. It is not verified yet. */
export interface StoredNote {
  readonly size: number;
  readonly note: string;
  readonly createdAt: Date;
  /** Signature lines of witnesses. */
  readonly cosignatures: readonly string[];
}

interface NoteRow {
  readonly size: string;
  readonly note: string;
  readonly created_at: Date;
  readonly cosignatures: readonly string[];
}

const columns = `size, note, created_at, ARRAY(
  SELECT line FROM evidence_cosignature AS cosigned
   WHERE cosigned.tenant_id = stored.tenant_id AND cosigned.size = stored.size
   ORDER BY witness) AS cosignatures`;

export async function readNewest(
  connection: Queryable,
  tenantId: string,
): Promise<StoredNote | undefined> {
  const [newest] = await readBefore(connection, tenantId, { before: undefined, limit: 1 });
  return newest;
}

/** Returns the checkpoint of exactly this size. */
export async function readOfSize(
  connection: Queryable,
  tenantId: string,
  size: number,
): Promise<StoredNote | undefined> {
  const { rows } = await connection.query<NoteRow>(
    `SELECT ${columns} FROM evidence_checkpoint AS stored WHERE tenant_id = $1 AND size = $2`,
    [tenantId, size],
  );
  return rows.map(toStored)[0];
}

/** Returns the checkpoints smaller than a size, largest first. */
export async function readBefore(
  connection: Queryable,
  tenantId: string,
  { before, limit }: { readonly before: number | undefined; readonly limit: number },
): Promise<readonly StoredNote[]> {
  const { rows } = await connection.query<NoteRow>(
    `SELECT ${columns} FROM evidence_checkpoint AS stored
      WHERE tenant_id = $1 AND size < $2 ORDER BY size DESC LIMIT $3`,
    [tenantId, before ?? Number.MAX_SAFE_INTEGER, limit],
  );
  return rows.map(toStored);
}

function toStored(row: NoteRow): StoredNote {
  const { note, created_at: createdAt, cosignatures } = row;
  return { size: Number(row.size), note, createdAt, cosignatures };
}

/** Head of a ledger, with the signature of its last batch. */
export interface SignedEnd {
  readonly size: number;
  readonly root: Buffer;
  /** Detached JWS of the head; absent for an empty ledger, or if the batch is missing. */
  readonly jws: string | undefined;
}

export async function readSignedEnd(connection: Queryable, tenantId: string): Promise<SignedEnd> {
  const { rows } = await connection.query<{
    readonly position: string;
    readonly tree_root: string;
    readonly jws: string | null;
  }>(
    `SELECT head.position, head.tree_root, batch.jws
       FROM evidence_head AS head LEFT JOIN evidence_batch AS batch
         ON batch.tenant_id = head.tenant_id AND batch.position = head.position
      WHERE head.tenant_id = $1`,
    [tenantId],
  );
  const [row] = rows;
  if (row === undefined) return { size: 0, root: emptyRoot, jws: undefined };
  const root = Buffer.from(row.tree_root.slice('sha256:'.length), 'hex');
  return { size: Number(row.position), root, jws: row.jws ?? undefined };
}

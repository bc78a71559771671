import { argumentsPlace } from '../approvals/approval-args.ts';
import type { Services } from '../core/services.ts';
import { openCredential } from '../credentials/stored-credential.ts';
import { saltPlace } from '../ledger/privacy/store-salts.ts';
import { installPlace, payloadPlace } from '../platform/outbound/enqueue.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signingKeyPlace } from '../platform/signing-keys/signing-keys.ts';
import type { SealedPlace } from '../platform/vault/vault.ts';

/** Sample size for the kinds with many rows: salts, arguments of approvals, messages. */
const sampleMax = 100;

interface Opened {
  readonly credentials: number;
  readonly signing_keys: number;
  readonly channels: number;
  readonly messages: number;
  readonly approval_arguments: number;
  readonly evidence_salts: number;
}

interface Tried {
  readonly opened: Opened;
  /** `<kind> <id>` of each secret that cannot be decrypted. */
  readonly unreadable: readonly string[];
}

/**
 * Test-decrypts a tenant's secrets: every credential, signing key and channel, and the newest rows
 * of the other kinds. Discards the plaintext at once.
 */
export async function openSecrets(services: Services, tenantId: string): Promise<Tried> {
  const unreadable: string[] = [];
  const tryAll = <Row>(
    kind: string,
    rows: readonly Row[],
    open: (row: Row) => unknown,
    idOf: (row: Row) => string | number,
  ): number => {
    let opened = 0;
    for (const row of rows) {
      try {
        open(row);
        opened += 1;
      } catch {
        unreadable.push(`${kind} ${idOf(row)}`);
      }
    }
    return opened;
  };
  const { db, vault } = services;
  const openAt = (sealed: string, place: SealedPlace) => vault.open(sealed, place).fill(0);
  const where = { tenantId };
  const newest = { take: sampleMax };
  const opened = {
    credentials: tryAll(
      'credential',
      await db.credential.findMany({ where }),
      (row) => openCredential(vault, row),
      ({ name }) => name,
    ),
    signing_keys: tryAll(
      'signing_key',
      await claimedRows(db, 'signing_key').findClaims(['kid', 'sealed'], { where }),
      ({ kid, sealed }) => openAt(sealed, signingKeyPlace(tenantId, kid)),
      ({ kid }) => kid,
    ),
    channels: tryAll(
      'channel',
      await db.install.findMany({
        where: { ...where, sealed: { not: null } },
        select: { channel: true, sealed: true },
      }),
      ({ channel, sealed }) => openAt(sealed ?? '', installPlace(tenantId, channel)),
      ({ channel }) => channel,
    ),
    messages: tryAll(
      'message',
      await db.delivery.findMany({
        where,
        orderBy: { id: 'desc' },
        ...newest,
        select: { id: true, sealed: true },
      }),
      ({ id, sealed }) => openAt(sealed, payloadPlace(tenantId, id)),
      ({ id }) => id,
    ),
    approval_arguments: tryAll(
      'approval_arguments',
      await claimedRows(db, 'approval').findClaims(['tenantId', 'id', 'proposedArgs'], {
        where: { ...where, proposedArgs: { not: null } },
        orderBy: { id: 'desc' },
        ...newest,
      }),
      (row) => openAt(row.proposedArgs ?? '', argumentsPlace(row, 'proposed')),
      ({ id }) => id,
    ),
    evidence_salts: tryAll(
      'evidence_salt',
      await newestSalts(services, tenantId),
      ({ id, sealed }) => openAt(sealed, saltPlace(tenantId, id)),
      ({ id }) => id,
    ),
  };
  return { opened, unreadable };
}

interface Salt {
  readonly id: string;
  readonly sealed: string;
}

async function newestSalts({ pool }: Services, tenantId: string): Promise<readonly Salt[]> {
  const { rows } = await pool.query<Salt>(
    `SELECT salt.event_id AS id, salt.sealed
       FROM (SELECT event_id FROM evidence_row WHERE tenant_id = $1 AND type = 'decision'
              ORDER BY position DESC LIMIT ${sampleMax}) AS row
       JOIN evidence_salt AS salt ON salt.tenant_id = $1 AND salt.event_id = row.event_id
      WHERE salt.erased_at IS NULL`,
    [tenantId],
  );
  return rows;
}

import { CompactEncrypt, importJWK, type JWK } from 'jose';
import type { HeldCredential } from '../../shared/binding/binding.ts';
import { parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { credentialsOfAgent } from '../credentials/held-credentials.ts';
import { newEvent } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction, transaction } from '../platform/store/transaction.ts';
import { credentialsVersion } from './credentials-version.ts';
import { ownSidecar } from './fleet.ts';

type Delivered = Pick<HeldCredential, 'id' | 'version'>;

const type = 'credential.delivered';
const waitMsMax = 10_000;

/**
 * Seals the delivery of each credential version to this sidecar, once. Throws
 * `evidence.seal_failed` unless all these events are in the ledger; then no credential is returned.
 */
export async function sealDeliveries(
  services: Services,
  sidecar: Verified<Sidecar>,
  credentials: readonly Delivered[],
): Promise<void> {
  if (credentials.length === 0) return;
  const wanted = new Map(credentials.map((one) => [eventIdOf(services, sidecar, one), one]));
  const { tenantId } = sidecar;
  try {
    const open = await unsealed(services.db, tenantId, [...wanted.keys()]);
    if (open.length === 0) return;
    const missing = new Map(open.flatMap((id) => entryOf(wanted, id)));
    await record(services, sidecar, missing);
    await within(Promise.all(open.map((id) => services.ledger.sealed(tenantId, id))));
    const left = await unsealed(services.db, tenantId, open);
    if (left.length > 0) throw new Error(`${left.length} deliveries are not in the ledger`);
  } catch (cause) {
    throw new GatewayError('evidence.seal_failed', {
      message: `Credentials for the sidecar ${sidecar.id} were withheld because their delivery could not be recorded; try again.`,
      cause,
    });
  }
}

/** Derives the event id as a keyed hash, so that a sidecar cannot send an event with this id in advance. */
function eventIdOf(
  { vault }: Pick<Services, 'vault'>,
  { tenantId, id: sidecarId }: Verified<Sidecar>,
  { id, version }: Delivered,
): string {
  const triple = JSON.stringify([tenantId, sidecarId, id, version]);
  return `ev_${vault.mac('credential_delivery', triple).slice(0, 32)}`;
}

function entryOf(wanted: ReadonlyMap<string, Delivered>, id: string): [string, Delivered][] {
  const delivered = wanted.get(id);
  return delivered === undefined ? [] : [[id, delivered]];
}

async function unsealed(
  db: Pick<Transaction, 'evidenceRow'>,
  tenantId: string,
  ids: readonly string[],
): Promise<readonly string[]> {
  const rows = await db.evidenceRow.findMany({
    where: { tenantId, eventId: { in: [...ids] }, type, source: 'control-plane' },
    select: { eventId: true },
  });
  const sealed = new Set(rows.map(({ eventId }) => eventId));
  return ids.filter((id) => !sealed.has(id));
}

/** Locks the sidecar, so that one of two concurrent replicas records the delivery. */
async function record(
  services: Services,
  sidecar: Verified<Sidecar>,
  missing: ReadonlyMap<string, Delivered>,
): Promise<void> {
  const { tenantId, id: sidecarId, agentId, userId } = sidecar;
  await transaction(services.db, async (tx) => {
    await lockFor(tx, tenantId, `deliveries of ${sidecarId}`);
    const ids = [...missing.keys()];
    const open = new Set(await unsealed(tx, tenantId, ids));
    const waiting = await tx.eventOutbox.findMany({
      where: { tenantId, eventId: { in: ids } },
      select: { eventId: true },
    });
    for (const { eventId } of waiting) open.delete(eventId);
    for (const [id, { id: credentialId, version }] of missing) {
      if (!open.has(id)) continue;
      const data = { credential_id: credentialId, sidecar_id: sidecarId, version };
      const chainId = `sidecar:${sidecarId}`;
      const event = newEvent({ type, chainId, agentId, userId, data }, services.clock);
      await services.ledger.record(tx, tenantId, { ...event, id });
    }
  });
}

/** Limits the wait for a ledger that does not respond. */
async function within<Result>(work: Promise<Result>): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('sealing timed out')), waitMsMax);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Credentials for the tools of the sidecar's agent, as a compact JWE for the enrolled key. Returned
 * only after their delivery is sealed.
 */
export async function sidecarCredentials(
  services: Services,
  caller: Caller,
): Promise<{ readonly jwe: string; readonly version: number }> {
  const sidecar = await ownSidecar(services, caller);
  const { tenantId, agentId, encryptionJwk } = sidecar;
  // Reads the version first: if credentials change meanwhile, the sidecar sees a newer version and
  // fetches again.
  const version = await credentialsVersion(services.db, tenantId, agentId);
  const credentials = await credentialsOfAgent(services, tenantId, agentId);
  await sealDeliveries(services, sidecar, credentials);
  const key = await importJWK({ ...parsePublicJwk(encryptionJwk) } as JWK, 'ECDH-ES');
  const plaintext = Buffer.from(JSON.stringify({ credentials }), 'utf8');
  const jwe = await new CompactEncrypt(plaintext)
    .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM' })
    .encrypt(key);
  return { jwe, version };
}

import { CompactEncrypt, importJWK, type JWK } from 'jose';
import { parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import type { Services } from '../core/services.ts';
import { credentialsOfAgent } from '../credentials/held-credentials.ts';
import type { Caller } from '../platform/access/caller.ts';
import { credentialsVersion } from './credentials-version.ts';
import { ownSidecar } from './fleet.ts';
import { sealDeliveries } from './seal-deliveries.ts';

/**
 * The credentials bound to tools of the sidecar's agent, as a compact JWE that only the key of
 * its enrolment opens. They leave only once their delivery is in the ledger.
 */
export async function sidecarCredentials(
  services: Services,
  caller: Caller,
): Promise<{ readonly jwe: string; readonly version: number }> {
  const sidecar = await ownSidecar(services, caller);
  const { tenantId, agentId, encryptionJwk } = sidecar;
  // Read first: should credentials change in between, the sidecar will see a newer version and ask again.
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

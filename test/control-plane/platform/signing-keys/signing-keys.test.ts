import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSigningKeys } from '../../../../control-plane/platform/signing-keys/signing-keys.ts';
import { createVault } from '../../../../control-plane/platform/vault/vault.ts';
import { signBytes, verifyBytes } from '../../../../shared/crypto/jws.ts';
import { importPublicJwk } from '../../../../shared/crypto/signing-key.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';

describe.each(['postgres', 'embedded'] as const)('signing keys on %s', (kind) => {
  let services: TestServices;

  beforeAll(async () => {
    services = await testServices(kind === 'embedded' ? { databaseUrl: 'embedded' } : {});
  });

  afterAll(() => services?.close());

  it('are created once at first use by concurrent requests', async () => {
    // Each replica caches keys in its own memory.
    const replicas = Array.from({ length: 8 }, () => createSigningKeys(services));
    const keys = await Promise.all(replicas.map((keys) => keys.active('t1', 'checkpoint')));
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1);
    expect(await services.db.signingKey.count({ where: { tenantId: 't1' } })).toBe(1);
  });

  it('survive a restart: the public keys still verify the earlier signatures', async () => {
    const { kid } = await services.signingKeys.active('t1', 'passport');
    const again = await createSigningKeys(services).active('t1', 'passport');
    expect(again.kid).toBe(kid);
    const [jwk] = await services.signingKeys.publicKeys('t1', 'passport');
    if (jwk === undefined) throw new Error('no public key');
    const data = Buffer.from('x');
    expect(verifyBytes(data, signBytes(data, again), importPublicJwk(jwk))).toBe(true);
    expect(JSON.stringify(jwk)).not.toContain('"d"');
  });

  it('are separate for each tenant and purpose; report keys use ES256, all other keys Ed25519', async () => {
    const report = await services.signingKeys.active('t1', 'report');
    const exported = await services.signingKeys.active('t1', 'export');
    const other = await services.signingKeys.active('t2', 'report');
    expect(new Set([report.kid, exported.kid, other.kid]).size).toBe(3);
    expect([report.alg, exported.alg]).toEqual(['ES256', 'EdDSA']);
  });

  it('cannot be opened with another master key', async () => {
    await services.signingKeys.active('t3', 'export');
    const thief = createSigningKeys({ ...services, vault: createVault(Buffer.alloc(32, 9)) });
    await expect(thief.active('t3', 'export')).rejects.toMatchObject({
      code: 'credential.unreadable',
    });
  });

  it('are rejected if moved to another tenant’s row', async () => {
    const { kid } = await services.signingKeys.active('t4', 'export');
    await services.db.signingKey.updateMany({ where: { kid }, data: { tenantId: 't5' } });
    await expect(services.signingKeys.active('t5', 'export')).rejects.toMatchObject({
      code: 'integrity.forged_row',
    });
  });
});

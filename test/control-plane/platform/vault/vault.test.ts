import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { createVault } from '../../../../control-plane/platform/vault/vault.ts';
import { GatewayError } from '../../../../shared/errors/gateway-error.ts';

const place = { tenantId: 't1', purpose: 'credential', id: 'cred_1', version: 1 };

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return error instanceof GatewayError ? error.code : String(error);
  }
  return 'nothing';
}

it('the vault opens its sealed values after a restart', () => {
  const master = randomBytes(32);
  const sealed = createVault(master).seal('hunter2', place);
  expect(createVault(master).open(sealed, place).toString()).toBe('hunter2');
  expect(sealed).not.toContain('hunter2');
  expect(JSON.parse(sealed)).toMatchObject({ v: 1, kek_id: expect.stringMatching(/^kek_/) });
});

it.each([
  ['a different tenant', { ...place, tenantId: 't2' }],
  ['a different row', { ...place, id: 'cred_2' }],
  ['a different version of the row', { ...place, version: 2 }],
])('the vault refuses an envelope that was moved to %s', (_where, elsewhere) => {
  const vault = createVault(randomBytes(32));
  const sealed = vault.seal('hunter2', place);
  expect(codeOf(() => vault.open(sealed, elsewhere))).toBe('credential.unreadable');
});

it.each(['', 'x', '{}', 'null', '{"v":2}'])('the vault reports %j as unreadable', (text) => {
  expect(codeOf(() => createVault(randomBytes(32)).open(text, place))).toBe(
    'credential.unreadable',
  );
});

it('the vault’s error does not contain the value that could not be opened', () => {
  const vault = createVault(randomBytes(32));
  const sealed = createVault(randomBytes(32)).seal('hunter2', place);
  expect(() => vault.open(sealed, place)).toThrow('A stored secret could not be decrypted.');
});

it('the vault computes a different MAC for each purpose and master key', () => {
  const master = randomBytes(32);
  const vault = createVault(master);
  expect(vault.mac('api_key', 'x')).toMatch(/^[0-9a-f]{64}$/);
  expect(vault.mac('api_key', 'x')).toBe(createVault(master).mac('api_key', 'x'));
  expect(vault.mac('api_key', 'x')).not.toBe(vault.mac('binding', 'x'));
  expect(vault.mac('api_key', 'x')).not.toBe(createVault(randomBytes(32)).mac('api_key', 'x'));
});

it('the vault accepts only a master key of 32 bytes', () => {
  expect(() => createVault(randomBytes(16))).toThrow('16 bytes');
});

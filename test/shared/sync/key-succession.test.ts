import { describe, expect, it } from 'vitest';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { followSuccession, signSuccession } from '../../../shared/sync/key-succession.ts';
import { signSection } from '../../../shared/sync/signed-section.ts';

const [first, second, third, thief] = [1, 2, 3, 4].map(() => generateSigningKey()) as [
  ReturnType<typeof generateSigningKey>,
  ReturnType<typeof generateSigningKey>,
  ReturnType<typeof generateSigningKey>,
  ReturnType<typeof generateSigningKey>,
];
const line = [
  signSuccession('acme', first, second.publicJwk),
  signSuccession('acme', second, third.publicJwk),
];
const from = (...keys: readonly (typeof first)[]) => ({
  tenant: 'acme',
  trusted: verificationKeys(keys.map(({ publicJwk }) => publicJwk)),
});

describe('a succession of keys', () => {
  it('leads to its last key from each earlier key', () => {
    expect(followSuccession(line, from(first))?.kid).toBe(third.kid);
    expect(followSuccession(line, from(second))?.kid).toBe(third.kid);
    expect(followSuccession(line, from(first, second))?.kid).toBe(third.kid);
  });

  it('has no next key after its last key or after an unknown key; an empty succession has none at all', () => {
    expect(followSuccession(line, from(third))).toBeUndefined();
    expect(followSuccession(line, from(thief))).toBeUndefined();
    expect(followSuccession([], from(first))).toBeUndefined();
  });

  it('is followed neither across a gap nor backwards', () => {
    expect(followSuccession(line.slice(1), from(first))).toBeUndefined();
    expect(followSuccession(line.toReversed(), from(first))?.kid).toBe(second.kid);
  });

  it.each([
    ['signed with an untrusted key', signSuccession('acme', thief, thief.publicJwk)],
    [
      'for another tenant, signed with the right key',
      signSuccession('other', first, thief.publicJwk),
    ],
    [
      'a signed section',
      signSection({ tenant: 'acme', section: 'keys', version: 1, body: {} }, first),
    ],
    ['malformed', 'open sesame'],
  ])('skips a statement that is %s', (_what, statement) => {
    expect(followSuccession([statement], from(first))).toBeUndefined();
    expect(followSuccession([statement, ...line], from(first))?.kid).toBe(third.kid);
  });
});

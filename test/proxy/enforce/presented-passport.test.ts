import { expect, it } from 'vitest';
import { UsedPassports } from '../../../proxy/enforce/presented-passport.ts';

it('a used passport is remembered until ten minutes after its expiry', () => {
  const used = new UsedPassports();
  expect(used.add('first', { expiresAtMs: 1_000, nowMs: 0 })).toBe(true);
  for (let n = 0; n < 5_000; n++) {
    expect(used.add(`a${n}`, { expiresAtMs: 1_000, nowMs: 601_000 - 1 })).toBe(true);
  }
  expect(used.add('first', { expiresAtMs: 1_000, nowMs: 601_000 - 1 })).toBe(false);
  for (let n = 0; n < 10_000; n++) {
    used.add(`b${n}`, { expiresAtMs: 10_000_000, nowMs: 601_000 });
  }
  expect(used.add('first', { expiresAtMs: 1_000, nowMs: 601_000 })).toBe(true);
});

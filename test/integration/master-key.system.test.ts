import { expect, it } from 'vitest';
import { rotateUnderFire } from '../support/system/rotate-under-fire.ts';

it('a master key is replaced under load with a kill at every stage: no request fails and no data is lost', async () => {
  const report = await rotateUnderFire({ kills: 2, rows: 4_000 });
  expect(report.failed).toEqual([]);
  expect(report.answered).toBeGreaterThan(20);
  expect(report).toMatchObject({
    lostKeys: 0,
    statusAfter: 0,
    isVerified: true,
    events: ['master_key.rotation_began', 'master_key.rotated'],
  });
  expect(report.oldKeySays).toMatch(/wrapped by the master key kek_\w+, which is not configured/);
}, 400_000);

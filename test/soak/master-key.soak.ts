import { expect, it } from 'vitest';
import { rotateUnderFire } from '../support/system/rotate-under-fire.ts';

it(
  'a rotation of the master key killed 40 times over 200,000 secrets: no request fails, nothing is lost',
  async () => {
    const report = await rotateUnderFire({ kills: 40, rows: 200_000 });
    process.stdout.write(`${JSON.stringify(report)}\n`);
    expect(report.failed).toEqual([]);
    expect(report).toMatchObject({ lostKeys: 0, statusAfter: 0, isVerified: true });
    expect(report.events).toEqual(['master_key.rotation_began', 'master_key.rotated']);
  },
  25 * 60_000,
);

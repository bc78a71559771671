import { expect, it } from 'vitest';
import { rotateUnderFire } from '../support/system/rotate-under-fire.ts';

it(
  'a rotation of the master key over 200,000 secrets survives 40 kills: no request fails and no data is lost',
  async () => {
    const report = await rotateUnderFire({ kills: 40, rows: 200_000 });
    process.stdout.write(`${JSON.stringify(report)}\n`);
    expect(report.failed).toEqual([]);
    expect(report).toMatchObject({ lostKeys: 0, statusAfter: 0, isVerified: true });
    expect(report.events).toEqual(['master_key.rotation_began', 'master_key.rotated']);
  },
  25 * 60_000,
);

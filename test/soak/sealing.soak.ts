import { expect, it } from 'vitest';
import { printedSeed } from '../support/base/seeded.ts';
import { killWhileSealing } from '../support/system/sealing-kills.ts';

const times = Number(process.env.KILLS ?? 200);

it(
  `${times} SIGKILLs of the control plane while four writers seal lose and duplicate no event, and the ledger always verifies`,
  async () => {
    const report = await killWhileSealing({ times, seed: printedSeed(), withinMs: 25 * 60_000 });
    process.stdout.write(`sealing: ${JSON.stringify(report)}\n`);
    expect(report.wrong).toEqual([]);
    expect(report.kills).toBe(times);
  },
  30 * 60_000,
);

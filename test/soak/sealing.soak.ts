import { expect, it } from 'vitest';
import { printedSeed } from '../support/base/seeded.ts';
import { killWhileSealing } from '../support/system/sealing-kills.ts';

const times = Number(process.env.KILLS ?? 200);

it(
  `SIGKILL of the control plane ${times} times while four writers seal: nothing lost, nothing twice, always verifiable`,
  async () => {
    const report = await killWhileSealing({ times, seed: printedSeed(), withinMs: 25 * 60_000 });
    process.stdout.write(`sealing: ${JSON.stringify(report)}\n`);
    expect(report.wrong).toEqual([]);
    expect(report.kills).toBe(times);
  },
  30 * 60_000,
);

import { expect, it } from 'vitest';
import { printedSeed } from '../support/base/seeded.ts';
import { killUnderLoad } from '../support/system/kills.ts';

const times = 200;

it.each(['sidecar', 'control plane'] as const)(
  `SIGKILL of the %s 200 times under load: every performed call has its decision, none twice`,
  async (victim) => {
    const report = await killUnderLoad({ victim, times, seed: printedSeed() });
    process.stdout.write(`${victim}: ${JSON.stringify(report)}\n`);
    expect(report.kills).toBe(times);
    expect(report.performed).toBeGreaterThan(times);
  },
);

import { expect, it } from 'vitest';
import { killUnderLoad } from '../support/kills.ts';
import { printedSeed } from '../support/seeded.ts';

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

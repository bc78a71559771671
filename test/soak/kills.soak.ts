import { expect, it } from 'vitest';
import { printedSeed } from '../support/base/seeded.ts';
import { killUnderLoad } from '../support/system/kills.ts';

const times = 200;

it.each(['sidecar', 'control plane'] as const)(
  `after 200 SIGKILLs of the %s under load, every performed call has exactly one decision`,
  async (victim) => {
    const report = await killUnderLoad({ victim, times, seed: printedSeed() });
    process.stdout.write(`${victim}: ${JSON.stringify(report)}\n`);
    expect(report.kills).toBe(times);
    expect(report.performed).toBeGreaterThan(times);
  },
);

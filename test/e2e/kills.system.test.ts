import { expect, it } from 'vitest';
import { killUnderLoad } from '../support/kills.ts';
import { printedSeed } from '../support/seeded.ts';

it.each(['sidecar', 'control plane'] as const)(
  'SIGKILL of the %s under load: every performed call has its decision, none twice, and what was cut off shows',
  async (victim) => {
    const report = await killUnderLoad({ victim, times: 6, seed: printedSeed() });
    expect(report.performed).toBeGreaterThan(report.kills);
  },
  600_000,
);

import { expect, it } from 'vitest';
import { printedSeed } from '../../support/base/seeded.ts';
import { killUnderLoad } from '../../support/system/kills.ts';

it.each(['sidecar', 'control plane'] as const)(
  'SIGKILL of the %s under load: every performed call has its decision, none twice, and what was cut off shows',
  async (victim) => {
    const report = await killUnderLoad({ victim, times: 6, seed: printedSeed() });
    expect(report.performed).toBeGreaterThan(report.kills);
  },
  600_000,
);

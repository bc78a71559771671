import { expect, it } from 'vitest';
import { printedSeed } from '../../support/base/seeded.ts';
import { killUnderLoad } from '../../support/system/kills.ts';

it.each(['sidecar', 'control plane'] as const)(
  'after SIGKILL of the %s under load, each performed call has one decision, and each interrupted call is recorded',
  async (victim) => {
    const report = await killUnderLoad({ victim, times: 6, seed: printedSeed() });
    expect(report.performed).toBeGreaterThan(report.kills);
  },
  600_000,
);

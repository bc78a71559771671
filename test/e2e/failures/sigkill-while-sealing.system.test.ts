import { expect, it } from 'vitest';
import { printedSeed } from '../../support/base/seeded.ts';
import { killWhileSealing } from '../../support/system/sealing-kills.ts';

it('SIGKILL of the control plane while four writers seal loses and duplicates no event, and the ledger verifies', async () => {
  const report = await killWhileSealing({ times: 10, seed: printedSeed(), withinMs: 60_000 });
  process.stdout.write(`${JSON.stringify(report)}\n`);
  expect(report.wrong).toEqual([]);
  expect(report.kills).toBeGreaterThan(0);
  expect(report.told).toBeGreaterThan(0);
}, 300_000);

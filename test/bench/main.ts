import fs from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { benchBlocks } from './blocks.ts';
import { benchDecision } from './decision.ts';
import { benchLedger } from './ledger.ts';
import { benchPreflight } from './preflight.ts';
import type { BenchRow } from './row.ts';
import { benchSealing } from './sealing.ts';
import { benchSidecar } from './sidecar.ts';
import { benchSync } from './sync.ts';

const suites: Readonly<Record<string, () => Promise<BenchRow[]>>> = {
  decision: benchDecision,
  sidecar: benchSidecar,
  preflight: benchPreflight,
  sealing: benchSealing,
  ledger: benchLedger,
  sync: benchSync,
  blocks: benchBlocks,
};

// Each suite verifies its results and throws if they are wrong. Slow results are no failure.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'string', default: 'bench-results.json' } },
});
const chosen = positionals.length > 0 ? positionals : Object.keys(suites);
const rows: BenchRow[] = [];
for (const name of chosen) {
  const suite = suites[name];
  if (suite === undefined)
    throw new Error(`no such suite: ${name}; there are ${Object.keys(suites).join(', ')}`);
  console.error(`measuring ${name} …`);
  rows.push(...(await suite()));
}
console.table(
  rows.map(({ row, ours, baseline, baselineName, ratio, unit, spread }) => ({
    row,
    ours: Math.round(ours),
    baseline: `${Math.round(baseline)} (${baselineName})`,
    ratio: ratio.toFixed(2),
    unit,
    spread: `±${(spread * 100).toFixed(0)} %`,
  })),
);
const machine = { node: process.version, cores: cpus().length, cpu: cpus()[0]?.model };
fs.writeFileSync(values.json, `${JSON.stringify({ machine, rows }, null, 2)}\n`);
process.exit(0);

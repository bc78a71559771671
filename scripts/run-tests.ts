// Runs all tests, then runs the failed files again, one at a time. The last line counts all tests.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { filesToRepeat, settle, type TestReport } from './settle-tests.ts';

const folder = mkdtempSync(join(tmpdir(), 'test-reports-'));

/** Runs tests; returns undefined if the run ended without a report. */
function runTests(files: readonly string[]): TestReport | undefined {
  const report = join(folder, 'report.json');
  rmSync(report, { force: true });
  const program = fileURLToPath(new URL('report-tests.ts', import.meta.url));
  spawnSync(process.execPath, [program, report, ...files], { stdio: 'inherit' });
  try {
    return JSON.parse(readFileSync(report, 'utf8')) as TestReport;
  } catch {
    return undefined;
  }
}

const nothing: TestReport = { files: [], strayErrors: 1 };
let first = runTests([]) ?? nothing;
let second: TestReport | undefined;
const repeat = filesToRepeat(first);
if (repeat === 'all') {
  console.log('\nAn error names no test file: all tests run once more.\n');
  second = runTests([]);
  // Without a first report, only the second report has tests to count.
  if (first.files.length === 0 && second !== undefined) first = second;
} else if (repeat.length > 0) {
  console.log(`\nThese files failed and run once more, alone:\n${repeat.join('\n')}\n`);
  second = runTests(repeat);
}
rmSync(folder, { recursive: true, force: true });
const { flaky, failed, totals } = settle(first, second);
for (const name of failed) console.log(`failed: ${name}`);
for (const line of flaky) console.log(line);
console.log(totals);
process.exitCode = failed.length === 0 ? 0 : 1;

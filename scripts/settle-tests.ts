/** The report of one test run. */
export interface TestReport {
  readonly files: readonly TestFile[];
  /** Unhandled errors that name no test file. */
  readonly strayErrors: number;
}

export interface TestFile {
  /** Relative to the repository. */
  readonly file: string;
  readonly tests: readonly TestResult[];
}

export interface TestResult {
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  /** A hook, a file that fails to load, a crashed worker or an unhandled error: counts only as a failure. */
  readonly isNoTest?: boolean;
}

export interface Settled {
  readonly flaky: readonly string[];
  readonly failed: readonly string[];
  /** `N passed, N failed`, and `, N skipped` if there are any. */
  readonly totals: string;
}

/** The files to run a second time; `all` if an error names no file. */
export function filesToRepeat({ files, strayErrors }: TestReport): readonly string[] | 'all' {
  if (strayErrors > 0 || files.length === 0) return 'all';
  return files.filter(hasFailed).map(({ file }) => file);
}

function hasFailed({ tests }: TestFile): boolean {
  return tests.some(({ state }) => state === 'failed');
}

/**
 * Combines the first run with the second, which had only the files that failed. A test that passes
 * in the second run is flaky and counts as passed; a test that fails twice, or that the second run
 * does not reach, is a failure. Without a second report, the first one counts.
 */
export function settle(first: TestReport, second: TestReport | undefined): Settled {
  const settled = first.files.map((file) => {
    if (!hasFailed(file)) return { file: file.file, tests: file.tests, flaky: [] };
    return settleFile(
      file,
      second?.files.find((other) => other.file === file.file),
    );
  });
  const tests = settled.flatMap((one) => one.tests);
  const count = (state: TestResult['state']) =>
    tests.filter((test) => test.state === state && (state === 'failed' || !test.isNoTest)).length;
  const hasStray = (second ?? first).strayErrors > 0 || first.files.length === 0;
  const stray = hasStray ? ['an error outside of the test files'] : [];
  const skipped = count('skipped');
  return {
    flaky: settled.flatMap(({ flaky }) => flaky),
    failed: [
      ...settled.flatMap(({ file, tests }) =>
        tests.filter(({ state }) => state === 'failed').map(({ name }) => `${file}: ${name}`),
      ),
      ...stray,
    ],
    totals: `${count('passed')} passed, ${count('failed') + stray.length} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
  };
}

function settleFile({ file, tests }: TestFile, again: TestFile | undefined) {
  const states = (name: string) =>
    again?.tests.filter((test) => test.name === name).map(({ state }) => state) ?? [];
  const passesNow = ({ name, isNoTest }: TestResult) =>
    again !== undefined &&
    (isNoTest === true
      ? !states(name).includes('failed')
      : states(name).length > 0 && states(name).every((state) => state === 'passed'));
  const flaky: string[] = [];
  const settled = tests.map((test): TestResult => {
    if (test.state === 'passed') {
      if (states(test.name).includes('failed')) flaky.push(`flaky: ${file}: ${test.name}`);
      return test;
    }
    // Tests that did not run after a failed hook or file; the second run has their results.
    if (test.state === 'skipped')
      return { ...test, state: states(test.name).includes('passed') ? 'passed' : 'skipped' };
    if (!passesNow(test)) return test;
    flaky.push(`flaky: ${file}: ${test.name}`);
    return { ...test, state: 'passed' };
  });
  return { file, tests: [...settled, ...onlySeenAgain(tests, again)], flaky };
}

/** Tests that the first run did not reach because the file did not load, and new failures outside tests. */
function onlySeenAgain(
  tests: readonly TestResult[],
  again: TestFile | undefined,
): readonly TestResult[] {
  const names = new Set(tests.map(({ name }) => name));
  return again?.tests.filter(({ name }) => !names.has(name)) ?? [];
}

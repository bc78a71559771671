import { expect, it } from 'vitest';
import { filesToRepeat, settle, type TestReport } from '../../scripts/settle-tests.ts';

type State = 'passed' | 'failed' | 'skipped';

/**
 * Builds a report from `{ 'a.test.ts': { works: 'passed', '(the file)': 'failed' } }`. Names in parentheses
 * are not tests.
 */
function report(files: Record<string, Record<string, State>>, strayErrors = 0): TestReport {
  return {
    strayErrors,
    files: Object.entries(files).map(([file, tests]) => ({
      file,
      tests: Object.entries(tests).map(([name, state]) =>
        name.startsWith('(') ? { name, state, isNoTest: true } : { name, state },
      ),
    })),
  };
}

const good = { works: 'passed' } as const;

it('the run repeats no test and reports no failure if all tests pass', () => {
  const first = report({ 'a.test.ts': good });
  expect(filesToRepeat(first)).toEqual([]);
  expect(settle(first, undefined)).toEqual({ flaky: [], failed: [], totals: '1 passed, 0 failed' });
});

it('a test that fails first and passes when it is repeated alone counts as passed, and is reported as flaky', () => {
  const first = report({ 'a.test.ts': good, 'b.test.ts': { ...good, shakes: 'failed' } });
  expect(filesToRepeat(first)).toEqual(['b.test.ts']);
  expect(settle(first, report({ 'b.test.ts': { ...good, shakes: 'passed' } }))).toEqual({
    flaky: ['flaky: b.test.ts: shakes'],
    failed: [],
    totals: '3 passed, 0 failed',
  });
});

it('the run fails for a test that fails twice or is missing in the second run', () => {
  const first = report({ 'a.test.ts': { ...good, broken: 'failed', lost: 'failed' } });
  for (const second of [
    report({ 'a.test.ts': { ...good, broken: 'failed', lost: 'skipped' } }),
    report({ 'a.test.ts': { ...good, broken: 'failed' } }),
    report({}),
    undefined,
  ]) {
    const { failed, totals } = settle(first, second);
    expect(failed).toEqual(['a.test.ts: broken', 'a.test.ts: lost']);
    expect(totals).toBe('1 passed, 2 failed');
  }
});

it.each(['(the file)', 'hooks (a hook)', '(an unhandled error)'])(
  '%s counts as a failure',
  (name) => {
    const first: TestReport = {
      strayErrors: 0,
      files: [{ file: 'a.test.ts', tests: [{ name, state: 'failed', isNoTest: true }] }],
    };
    expect(filesToRepeat(first)).toEqual(['a.test.ts']);
    expect(settle(first, first)).toMatchObject({
      failed: [`a.test.ts: ${name}`],
      totals: '0 passed, 1 failed',
    });
    expect(settle(first, report({ 'a.test.ts': good }))).toEqual({
      flaky: [`flaky: a.test.ts: ${name}`],
      failed: [],
      totals: '1 passed, 0 failed',
    });
  },
);

it('tests that a failed hook skipped are counted if they pass in the second run', () => {
  const first = report({
    'a.test.ts': { later: 'skipped', '(the file)': 'failed', off: 'skipped' },
  });
  const second = report({ 'a.test.ts': { later: 'passed', off: 'skipped' } });
  expect(settle(first, second).totals).toBe('1 passed, 0 failed, 1 skipped');
});

it('a test that passes first and fails when it is repeated alone is reported as flaky', () => {
  const first = report({ 'a.test.ts': { ...good, shakes: 'failed' } });
  const second = report({ 'a.test.ts': { works: 'failed', shakes: 'passed' } });
  expect(settle(first, second)).toMatchObject({
    flaky: ['flaky: a.test.ts: works', 'flaky: a.test.ts: shakes'],
    failed: [],
  });
});

it('the run fails if a file fails to load only in the second run', () => {
  const first = report({ 'a.test.ts': { ...good, shakes: 'failed' } });
  const second = report({ 'a.test.ts': { '(the file)': 'failed' } });
  expect(settle(first, second).failed).toEqual(['a.test.ts: shakes', 'a.test.ts: (the file)']);
});

it('an error outside of the test files repeats all tests, and the run fails if the error occurs again', () => {
  const first = report({ 'a.test.ts': good }, 1);
  expect(filesToRepeat(first)).toBe('all');
  expect(settle(first, report({ 'a.test.ts': good }))).toMatchObject({ failed: [] });
  for (const second of [first, undefined]) {
    expect(settle(first, second)).toMatchObject({
      failed: ['an error outside of the test files'],
      totals: '1 passed, 1 failed',
    });
  }
});

it('the run fails if no test ran', () => {
  expect(filesToRepeat(report({}))).toBe('all');
  expect(settle(report({}), report({})).totals).toBe('0 passed, 1 failed');
});

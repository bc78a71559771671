// Runs the tests once and writes a report: node scripts/report-tests.ts REPORT [FILE …]
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { startVitest, type TestModule, type TestSuite } from 'vitest/node';
import type { TestFile, TestReport, TestResult } from './settle-tests.ts';

const [report = '', ...files] = process.argv.slice(2);
// A second run has one worker, so that no other test file can disturb it.
const alone = files.length > 0 ? { fileParallelism: false } : {};
const vitest = await startVitest('test', files, { watch: false, ...alone });
const found = describeRun(vitest.state.getTestModules(), vitest.state.getUnhandledErrors());
writeFileSync(report, JSON.stringify(found));
await vitest.exit(true);

function describeRun(modules: readonly TestModule[], unhandled: readonly unknown[]): TestReport {
  const paths = unhandled.map((error) => (error as { VITEST_TEST_PATH?: string }).VITEST_TEST_PATH);
  const known = new Set(modules.map(({ moduleId }) => moduleId));
  return {
    files: modules.map((module) => describeFile(module, paths.includes(module.moduleId))),
    strayErrors: paths.filter((path) => path === undefined || !known.has(path)).length,
  };
}

function describeFile(module: TestModule, hasUnhandled: boolean): TestFile {
  const tests = [...module.children.allTests()].map((test): TestResult => {
    const { state } = test.result();
    // A crashed worker leaves its tests pending.
    return { name: test.fullName, state: state === 'pending' ? 'failed' : state };
  });
  const suites = [...module.children.allSuites()].filter(brokeItself);
  const finished = ['passed', 'failed', 'skipped'].includes(module.state());
  return {
    file: relative(process.cwd(), module.moduleId),
    tests: [
      ...tests,
      ...suites.map((suite) => noTest(`${suite.fullName} (a hook)`)),
      ...(finished && module.errors().length === 0 ? [] : [noTest('(the file)')]),
      ...(hasUnhandled ? [noTest('(an unhandled error)')] : []),
    ],
  };
}

function brokeItself(suite: TestSuite): boolean {
  return suite.errors().length > 0;
}

function noTest(name: string): TestResult {
  return { name, state: 'failed', isNoTest: true };
}

/** The exit code of Node for a top-level `await` that never settles. */
const unsettled = 13;

/**
 * Runs a program's main function. If its promise never settles, the process exits with 13, as for a
 * top-level `await`, which the bundle's module format does not support.
 */
export function runMain(main: () => Promise<void>): void {
  let isSettled = false;
  process.once('exit', () => {
    if (!isSettled) process.exitCode ??= unsettled;
  });
  void main().finally(() => {
    isSettled = true;
  });
}

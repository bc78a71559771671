import { setTimeout as pause } from 'node:timers/promises';

/**
 * Waits until a condition is true; fails after `withinMs` with a message that names the condition.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  { withinMs = 10_000, what = condition.toString() } = {},
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`never came true: ${what}`);
    await pause(5);
  }
}

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Loading a program takes more memory than running it, and the runtime would keep the difference. A
 * regular collection is used, because a last-resort one makes every later call slower
 * (docs/decisions/0041).
 */
export function releaseMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'regular' });
}

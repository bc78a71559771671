import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

// Compiled code is cached beside the code itself and is as safe: a user who may write there could
// change the program as well. Without a writable cache, the start is slower.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/sallyport'));

const { run } = await import('./main.ts');
await run();
releaseMemory();

/**
 * Loading a program takes more memory than running it, and the runtime would keep the difference. A
 * regular collection is used, because a last-resort one makes every later call slower
 * (docs/decisions/0041).
 */
function releaseMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'regular' });
}

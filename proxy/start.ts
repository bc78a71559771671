import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { runMain } from '../shared/base/run-main.ts';

// Compiled code is cached next to the source code and is as safe: a user who can change the cache
// can also change the program. Without a writable cache, the start is slower.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/sallyport'));

runMain(async () => {
  const { run } = await import('./main.ts');
  await run();
  releaseMemory();
});

/**
 * Collects garbage once. Loading a program takes more memory than running it, and the runtime would
 * keep the difference. The collection is a regular one, because a last-resort collection makes
 * every later call slower (docs/decisions/0041).
 */
function releaseMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'regular' });
}

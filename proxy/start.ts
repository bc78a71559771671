import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

// Compiled code is kept where the code itself lies, and so is as safe as that: whoever may write
// there could change the program as well. Where it cannot be written, the start is slower.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/sallyport'));

const { run } = await import('./main.ts');
await run();
releaseMemory();

/**
 * Loading a program takes more than running it; the runtime would keep the difference for ever. A
 * collection of last resort would make every later call dearer (docs/decisions/0041).
 */
function releaseMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'regular' });
}

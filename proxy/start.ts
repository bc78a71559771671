import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { runMain } from '../shared/base/run-main.ts';

// Compiled code is cached next to the source code and is as safe: a user who can change the cache
// can also change the program. Without a writable cache, the start is slower.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/sallyport'));

runMain(async () => {
  const { run } = await import('./main.ts');
  await run();
});

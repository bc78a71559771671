import { defineConfig } from 'vitest/config';

/** The long tests (`npm run soak`): each bounded, one file at a time, so that none disturbs another's load. */
export default defineConfig({
  test: {
    name: 'soak',
    include: ['test/soak/**/*.soak.ts'],
    globalSetup: ['test/support/programs/global-setup.ts'],
    testTimeout: 15 * 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});

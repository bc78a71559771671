import { defineConfig } from 'vitest/config';

/** Tests that take minutes, kill programs or need other people's programs. */
const system = 'test/**/*.system.test.ts';

const onRealParts = {
  globalSetup: ['test/support/programs/global-setup.ts'],
  testTimeout: 120_000,
  hookTimeout: 120_000,
  maxWorkers: 2,
};

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'layering', include: ['test/layering.test.ts'] } },
      {
        test: {
          ...onRealParts,
          name: 'sallyport',
          include: ['test/**/*.test.ts'],
          exclude: ['test/layering.test.ts', system, '**/node_modules/**'],
        },
      },
      {
        test: {
          ...onRealParts,
          name: 'system',
          // After the others: both at once would start four workers.
          sequence: { groupOrder: 1 },
          include: [system],
          exclude: ['**/node_modules/**'],
        },
      },
    ],
  },
});

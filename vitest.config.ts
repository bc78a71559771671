import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'layering', include: ['test/layering.test.ts'] } },
      {
        test: {
          name: 'sallyport',
          include: ['test/**/*.test.ts'],
          exclude: ['test/layering.test.ts', '**/node_modules/**'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});

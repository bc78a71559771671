// Generates the Prisma client from prisma/schema.prisma. The Prisma CLI would
// otherwise download a native schema engine, which `generate` never runs:
// pointing it at a file that exists keeps installation offline-capable.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
execFileSync(process.execPath, ['node_modules/prisma/build/index.js', 'generate', '--no-hints'], {
  cwd: root,
  stdio: ['ignore', 'ignore', 'inherit'],
  env: {
    ...process.env,
    PRISMA_SCHEMA_ENGINE_BINARY: fileURLToPath(import.meta.url),
    PRISMA_HIDE_UPDATE_MESSAGE: '1',
    CHECKPOINT_DISABLE: '1',
  },
});

// Generates the Prisma client from prisma/schema.prisma. The Prisma CLI would
// otherwise download a native schema engine, which `generate` never runs:
// pointing it at a file that exists keeps installation offline-capable.
// An installation without development dependencies has no CLI and uses the committed client.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const cli = fileURLToPath(new URL('../node_modules/prisma/build/index.js', import.meta.url));

if (existsSync(cli)) {
  execFileSync(process.execPath, [cli, 'generate', '--no-hints'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      PRISMA_SCHEMA_ENGINE_BINARY: fileURLToPath(import.meta.url),
      PRISMA_HIDE_UPDATE_MESSAGE: '1',
      CHECKPOINT_DISABLE: '1',
    },
  });
}

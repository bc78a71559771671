import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from './cached.ts';
import { findProgram } from './programs.ts';

const run = promisify(execFile);

/** The program of one Go file that needs the standard library only; built once and kept. */
export async function goProgram(source: string): Promise<string> {
  const go = await findProgram(['go'], 'golang-go');
  const env = {
    ...process.env,
    CGO_ENABLED: '0',
    GOFLAGS: '-mod=mod',
    GOPROXY: 'off',
    GOTOOLCHAIN: 'local',
  };
  const { stdout: version } = await run(go, ['version'], { env });
  const folder = await cachedFolder(
    'go',
    [await readFile(source, 'utf8'), version],
    async (draft) => {
      await run(go, ['build', '-o', join(draft, 'program'), source], { env });
    },
  );
  return join(folder, 'program');
}

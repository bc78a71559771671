import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pythonWith } from '../support/programs/python.ts';
import { type Finding, isAccepted } from './baseline.ts';
import { startInstance } from './instance.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '120' } } });
const seconds = Number(values.seconds);
if (!Number.isInteger(seconds) || seconds < 1 || seconds > 3_600) {
  throw new Error(`--seconds ${values.seconds}: must be a whole number from 1 to 3600`);
}

/** Lets Schemathesis compare a running control plane with its own OpenAPI document. */
async function fuzz(folder: string): Promise<{ status: number; findings: readonly Finding[] }> {
  const python = await pythonWith(join(import.meta.dirname, 'requirements.txt'));
  const instance = await startInstance();
  const document = join(folder, 'openapi.json');
  const file = join(folder, 'findings.jsonl');
  writeFileSync(document, JSON.stringify(instance.document));
  writeFileSync(file, '');
  try {
    const status = await run(python, {
      args: [
        // Runs the module instead of its script: the environment was moved after its creation, so
        // its scripts have wrong paths.
        ...[
          '-c',
          'import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())',
        ],
        '--config-file',
        join(import.meta.dirname, 'schemathesis.toml'),
        'run',
        document,
        '--url',
        `${instance.origin}/api`,
        '--header',
        `Authorization: Bearer ${instance.key}`,
        '--phases',
        'examples,coverage,fuzzing',
        '--mode',
        'all',
        '--max-time',
        `${seconds}`,
        '--checks',
        'promises',
        '--suppress-health-check',
        'all',
        '--warnings',
        'off',
        '--generation-database',
        'none',
        '--no-color',
        '--workers',
        '2',
      ],
      env: { SCHEMATHESIS_HOOKS: 'findings', PYTHONPATH: import.meta.dirname, FINDINGS: file },
      cwd: folder,
    });
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
    return { status, findings: lines.map((line) => JSON.parse(line) as Finding) };
  } finally {
    await instance.close();
  }
}

interface Command {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

function run(command: string, { args, env, cwd }: Command): Promise<number> {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

/**
 * Returns one finding of each kind, because repeats of the same refusal of an operation add
 * nothing.
 */
function distinct(findings: readonly Finding[]): readonly Finding[] {
  const kindOf = ({ check, operation, status, answer }: Finding) =>
    [check, operation, status, answer.replaceAll(/\d+/g, '0').slice(0, 200)].join(' ');
  return [...new Map(findings.map((finding) => [kindOf(finding), finding])).values()];
}

const folder = mkdtempSync(join(tmpdir(), 'sallyport-fuzz-'));
try {
  const { status, findings } = await fuzz(folder);
  const unknown = distinct(findings.filter((finding) => !isAccepted(finding)));
  for (const finding of unknown) console.error(JSON.stringify(finding, null, 2));
  console.log(
    `${findings.length} findings, ${findings.length - unknown.length} of them repeated or in the baseline, ${unknown.length} to mend`,
  );
  process.exitCode = unknown.length > 0 ? 1 : status;
} finally {
  await rm(folder, { recursive: true, force: true });
}

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const program = join(
  dirname(createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json')),
  'dist/index.js',
);

/** The result of each check of each scenario, as in `tools-list / tools-list-returned: SUCCESS`. */
export type Results = readonly string[];

interface Check {
  readonly id: string;
  readonly status: string;
}

/**
 * Runs the official conformance suite with these arguments and returns its results. The suite uses
 * the proxy that the environment sets.
 */
export async function runSuite(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Results> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'conformance-'));
  try {
    const output = await run([...args, '--output-dir', folder], env);
    const results = fs
      .readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .flatMap((file) =>
        file.endsWith('checks.json') ? read(join(folder, file), scenarioOf(file)) : [],
      );
    if (results.length === 0) throw new Error(`the suite checked nothing:\n${output}`);
    return results.toSorted();
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Runs the suite's program; returns its output. The exit code is ignored: 1 means that a check
 * failed, which is a valid result.
 */
function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...args], {
      env: { PATH: process.env.PATH, HOME: tmpdir(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    child.once('error', reject);
    child.once('close', () => resolve(output));
  });
}

/**
 * Returns the scenario of a result file. The folder's name is the scenario with its kind as a prefix and the
 * time as a suffix.
 */
function scenarioOf(file: string): string {
  return dirname(file)
    .replace(/^server-/, '')
    .replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
}

function read(file: string, scenario: string): string[] {
  const checks = JSON.parse(fs.readFileSync(file, 'utf8')) as readonly Check[];
  return checks.map(({ id, status }) => `${scenario} / ${id}: ${status}`);
}

export function failures(results: Results): Results {
  return results.filter((result) => result.endsWith(': FAILURE'));
}

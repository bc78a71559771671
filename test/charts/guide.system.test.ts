import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { helmBuildMs, installHelm } from '../support/charts/helm.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');
const guide = 'docs/how-to/deploy-on-kubernetes.md';
const cleanup = new Cleanup();
let helm: string;
beforeAll(async () => {
  helm = await installHelm();
}, helmBuildMs);
afterAll(() => cleanup.run());

/** Returns the arguments of each `helm install` and `helm upgrade` command on a page. */
function commandsOf(page: string): string[][] {
  const text = readFileSync(join(root, page), 'utf8').replaceAll('\\\n', ' ');
  const commands = text.matchAll(/^ *helm (?:install|upgrade) (.+)$/gm);
  return [...commands].map(([, command = '']) =>
    command
      .replace(/\s#.*$/, '')
      .split(/\s+/)
      .filter((word) => word !== '' && word !== '--wait'),
  );
}

/** Writes the values file that the guide shows; returns its path. */
function writeValues(): string {
  const block = /```yaml\n( *)# values\.yaml\n(.+?)```/s.exec(
    readFileSync(join(root, guide), 'utf8'),
  );
  const [, indent = '', text = ''] = block ?? [];
  const file = join(temporaryFolder(cleanup), 'values.yaml');
  writeFileSync(file, text.replaceAll(`\n${indent}`, '\n').slice(indent.length));
  return file;
}

describe.each([
  [guide, 5],
  ['charts/sallyport/README.md', 1],
])('%s', (page, count) => {
  it(`has ${count} Helm commands, and each of them renders the chart`, async () => {
    const commands = commandsOf(page);
    expect(commands).toHaveLength(count);
    const values = writeValues();
    for (const words of commands) {
      const args = words.map((word) => (word === 'values.yaml' ? values : word));
      const version = ['--kube-version', '1.37.0'];
      const { stdout } = await run(helm, ['template', ...args, ...version], { cwd: root });
      expect(stdout, words.join(' ')).toContain('kind: Deployment');
    }
  });
});

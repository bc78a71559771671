import { execFile } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { chartFolder } from '../../scripts/chart/chart-files.ts';
import { helmBuildMs, installHelm } from '../support/charts/helm.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

const run = promisify(execFile);
const cleanup = new Cleanup();
let helm: string;
let copy: string;
beforeAll(async () => {
  helm = await installHelm();
  copy = join(temporaryFolder(cleanup), 'sallyport');
  cpSync(chartFolder, copy, { recursive: true });
  // Helm prints notes only if it can reach a cluster, so a copy of the chart renders them in a manifest.
  const notes = readFileSync(join(copy, 'templates/NOTES.txt'), 'utf8').replaceAll('\n', '\n  ');
  writeFileSync(join(copy, 'templates/notes.yaml'), `text: |\n  ${notes}`);
}, helmBuildMs);
afterAll(() => cleanup.run());

async function notesFor(base: string, ...options: string[]): Promise<string> {
  const values = ['--values', join(chartFolder, 'ci', `${base}-values.yaml`)];
  const args = [
    'template',
    'sallyport',
    copy,
    '--namespace',
    'gateway',
    '--kube-version',
    '1.37.0',
  ];
  const only = ['--show-only', 'templates/notes.yaml'];
  const { stdout } = await run(helm, [...args, ...values, ...only, ...options]);
  return (parse(stdout) as { readonly text: string }).text;
}

it('the notes warn about an evaluation release and about a Service that is exposed outside the cluster', async () => {
  expect(await notesFor('evaluation')).toContain('WARNING: this release is for evaluation only.');
  const exposed = await notesFor('external', '--set', 'service.type=LoadBalancer');
  expect(exposed).toContain('WARNING: the Service leaves the cluster');
  expect(await notesFor('production')).not.toContain('WARNING');
});

it('the notes name the next commands, the API address, and the master key to back up', async () => {
  const production = await notesFor('production');
  expect(production).toContain('helm test sallyport -n gateway');
  expect(production).toContain('https://sallyport.example/api');
  expect(production).not.toContain('master key');
  const external = await notesFor('external');
  expect(external).toContain('-n gateway exec deploy/sallyport -- sallyport admin create-tenant');
  expect(external).toContain('port-forward svc/sallyport 8080:8080');
  expect(external).toContain('Keep a copy of the master key (Secret sallyport, key master-key)');
  expect(external).toContain('sallyport.io/inject=enabled');
});

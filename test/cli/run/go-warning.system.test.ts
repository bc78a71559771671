import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { goWarning } from '../../../cli/run/go-warning.ts';
import { installedGo } from '../../support/programs/go.ts';

let folder: string;
beforeAll(async () => {
  folder = fs.mkdtempSync(join(tmpdir(), 'go-program-'));
  fs.writeFileSync(join(folder, 'main.go'), 'package main\n\nfunc main() {}\n');
  const go = await installedGo();
  execFileSync(go, ['build', '-o', 'agent', 'main.go'], {
    cwd: folder,
    env: { PATH: process.env.PATH, GOCACHE: join(folder, 'cache'), HOME: folder },
  });
}, 600_000);
afterAll(() => {
  fs.rmSync(folder, { recursive: true, force: true });
});

describe('the command of `sallyport run`', () => {
  it('causes a warning if it is a Go program, started by path or by name', () => {
    const expected = /agent is a Go program\. .*loopback/;
    expect(goWarning(join(folder, 'agent'), '')).toMatch(expected);
    expect(goWarning('agent', `/nowhere:${folder}`)).toMatch(expected);
  });

  it('causes no warning if it is not a Go program or does not exist', () => {
    expect(goWarning(process.execPath)).toBeUndefined();
    expect(goWarning('agent', '/nowhere')).toBeUndefined();
    expect(goWarning(folder)).toBeUndefined();
  });
});

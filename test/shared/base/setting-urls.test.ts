import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../..');

/** Runs a program with unusable settings, and returns the error that it prints. */
function refusal(program: readonly string[], env: Readonly<Record<string, string>>): string {
  const { status, stderr } = spawnSync(process.execPath, program, {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  return stderr;
}

const sidecar = ['proxy/main.ts'];
const controlPlane = ['control-plane/main.ts'];
const cli = ['cli/main.ts', 'approvals', 'list'];

describe('a URL setting without a scheme', () => {
  it.each([
    [sidecar, 'SALLYPORT_CONTROL_PLANE_URL', 'localhost:8700', 'https://sallyport.example'],
    [sidecar, 'SALLYPORT_CONTROL_PLANE_URL', '10.0.0.1:8700', 'https://sallyport.example'],
    [sidecar, 'SALLYPORT_CONTROL_PLANE_URL', 'http:8700', 'https://sallyport.example'],
    [sidecar, 'REDIS_URL', 'redis:6379', 'redis://host:6379'],
    [controlPlane, 'REDIS_URL', 'redis:6379', 'redis://host:6379'],
    [controlPlane, 'DATABASE_URL', 'localhost:5432/db', 'postgresql://user:password@host:5432/'],
    [cli, 'SALLYPORT_CONTROL_PLANE_URL', 'localhost:8700', 'http://127.0.0.1:8080'],
  ])('is refused by the program %s: setting %s, value %s', (program, name, value, example) => {
    const message = refusal(program, { [name]: value, SALLYPORT_API_KEY: 'apk_test' });
    expect(message).toMatch(new RegExp(`^sallyport: .*${name}`, 'm'));
    expect(message.split('must begin with')).toHaveLength(2);
    expect(message).toContain(example);
    expect(message).not.toMatch(/\n {4}at /);
  });

  it('is refused by --url with an error that contains an example', () => {
    const message = refusal([...cli, '--url', 'localhost:8700'], { SALLYPORT_API_KEY: 'apk_test' });
    expect(message).toContain('must begin with http:// or https://, as in http://127.0.0.1:8080');
  });
});

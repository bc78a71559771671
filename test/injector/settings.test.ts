import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { readSettings } from '../../injector/settings.ts';
import { injection } from '../support/injector/injection.ts';

const env = {
  SALLYPORT_INJECTION_FILE: '/etc/sallyport/injection.json',
  SALLYPORT_INJECTOR_NAMESPACE: 'gateway',
  KUBERNETES_SERVICE_HOST: '10.96.0.1',
  KUBERNETES_SERVICE_PORT: '443',
};

function read(change: Record<string, string | undefined>, file: unknown = injection) {
  const readFile = () => (typeof file === 'string' ? file : JSON.stringify(file));
  return readSettings({ env: { ...env, ...change }, readFile });
}

describe('the settings of the injector', () => {
  it('name the service, the Secret and the API server', () => {
    expect(read({ KUBERNETES_SERVICE_HOST: 'fd00::1' })).toMatchObject({
      injection,
      serviceHost: 'sallyport-injector.gateway.svc',
      secret: { namespace: 'gateway', name: 'sallyport-injector-tls' },
      apiUrl: 'https://[fd00::1]:443',
    });
  });

  it.each([
    ['no file', { SALLYPORT_INJECTION_FILE: undefined }, /INJECTION_FILE: is missing/],
    ['no namespace', { SALLYPORT_INJECTOR_NAMESPACE: undefined }, /NAMESPACE: is missing/],
    ['no cluster', { KUBERNETES_SERVICE_HOST: undefined }, /runs in a pod of Kubernetes/],
    ['a path as the namespace', { SALLYPORT_INJECTOR_NAMESPACE: '../x' }, /a name of Kubernetes/],
    ['a misspelt name', { SALLYPORT_INJECTOR_PROT: '1' }, /Did you mean SALLYPORT_INJECTOR_PORT/],
  ])('are refused with %s', (_, change, message) => {
    expect(() => read(change)).toThrow(message);
  });

  it.each([
    ['text', 'sidecar', /is not JSON/],
    ['an unknown member', { ...injection, imege: 'x' }, /Unrecognized key: "imege"/],
    ['the uid 0', { ...injection, uid: 0 }, /uid: /],
    ['no image', { ...injection, image: '' }, /image: /],
    [
      'a setting that the injection determines',
      { ...injection, settings: { SALLYPORT_DATA_DIR: '/' } },
      /is set by the injection: use the other values/,
    ],
  ])('are refused if the injection file contains %s', (_, file, message) => {
    expect(() => read({}, file)).toThrow(message);
  });
});

it('the program exits with an error message if it does not run in a cluster', async () => {
  const program = join(import.meta.dirname, '../../injector/main.ts');
  const child = spawn(process.execPath, [program], { env: { PATH: process.env.PATH } });
  const [message, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  expect(code).toBe(1);
  expect(message).toMatch(/^sallyport: SALLYPORT_INJECTION_FILE: is missing; the chart sets it/);
});

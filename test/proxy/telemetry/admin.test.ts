import { Counter, Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Admin, createAdmin } from '../../../proxy/telemetry/admin.ts';

let admin: Admin;
let ready: () => Promise<{ ready: boolean; reasons: string[] }>;
const registry = new Registry();
new Counter({ name: 'test_total', help: 'A test', registers: [registry] }).inc();

beforeEach(async () => {
  ready = async () => ({ ready: true, reasons: [] });
  admin = await createAdmin({
    port: 0,
    host: '127.0.0.1',
    registry,
    caPem: 'PEM',
    ready: () => ready(),
  });
});
afterEach(() => admin.close());

const get = (path: string, method = 'GET') =>
  fetch(`http://127.0.0.1:${admin.port}${path}`, { method });

describe('the admin port', () => {
  it('reports that the sidecar is alive even if the sidecar is not ready', async () => {
    ready = async () => ({ ready: false, reasons: ['No snapshot.'] });
    expect((await get('/healthz')).status).toBe(200);
    const answer = await get('/readyz');
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({ ready: false, reasons: ['No snapshot.'] });
  });

  it('answers 200 if the sidecar is ready, and 500 if readiness cannot be determined', async () => {
    expect((await get('/readyz')).status).toBe(200);
    ready = () => Promise.reject(new Error('secret detail'));
    const answer = await get('/readyz');
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('secret');
  });

  it('serves the metrics of its registry and the authority’s certificate', async () => {
    const metrics = await get('/metrics');
    expect(metrics.headers.get('content-type')).toContain('text/plain');
    expect(await metrics.text()).toContain('test_total 1');
    expect(await (await get('/ca.crt')).text()).toBe('PEM');
  });

  it.each(['/', '/metrics/', '/../etc/passwd', '/readyz?x'])('answers 404 at %s', async (path) => {
    expect((await get(path)).status).toBe(404);
  });

  it.each(['POST', 'PUT', 'DELETE'])('refuses the method %s', async (method) => {
    expect((await get('/healthz', method)).status).toBe(405);
  });
});

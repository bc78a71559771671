import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  answerInternal,
  type InternalHostDeps,
} from '../../../proxy/internal-host/internal-host.ts';

const deps: InternalHostDeps = {
  approval: (id) =>
    id === 12 ? { status: 'pending', expiresAt: '2026-01-01T00:00:00.000Z' } : undefined,
  manifest: () => ({ agent_id: '1', tools: [] }),
  caCertificate: () => '-----BEGIN CERTIFICATE-----\n',
};

let server: Server;
beforeAll(async () => {
  server = createServer((req, res) =>
    answerInternal({ method: req.method ?? '', target: req.url ?? '', res }, deps),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const get = (path: string, init: RequestInit = {}) =>
  fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, init);

describe('the internal host of the proxy', () => {
  it('reports only the id, the status and the expiry of an approval', async () => {
    const res = await get('/approvals/12');
    expect(res.status).toBe(200);
    expect(res.headers.get('cache-control')).toBe('no-store');
    expect(await res.json()).toEqual({
      id: '12',
      status: 'pending',
      expires_at: '2026-01-01T00:00:00.000Z',
    });
  });

  it.each(['/approvals/13', '/approvals/999999999999999'])(
    'returns 404 for the unknown approval %s',
    async (path) => {
      const res = await get(path);
      expect(res.status).toBe(404);
      expect(await res.json()).toMatchObject({ reason_code: 'approval.not_found' });
    },
  );

  it.each([
    '/',
    '/approvals',
    '/approvals/',
    '/approvals/012',
    '/approvals/12/',
    '/approvals/12?x',
    '/approvals/-1',
    '/approvals/1e1',
    '/approvals/9999999999999999',
    '/manifest/',
    '/ca.key',
  ])('returns 404 for the path %s', async (path) => {
    const res = await get(path);
    expect(res.status).toBe(404);
    expect(await res.json()).toMatchObject({ reason_code: 'request.not_found' });
  });

  it('reports that the sidecar is alive, as the network validator expects', async () => {
    const res = await get('/healthz');
    expect([res.status, await res.json()]).toEqual([200, { status: 'ok' }]);
  });

  it('serves the manifest of the agent and the authority’s certificate', async () => {
    expect(await (await get('/manifest')).json()).toEqual({ agent_id: '1', tools: [] });
    const certificate = await get('/ca.crt');
    expect(certificate.headers.get('content-type')).toBe('application/x-pem-file');
    expect(await certificate.text()).toBe('-----BEGIN CERTIFICATE-----\n');
  });

  it('answers HEAD without a body, and refuses methods other than GET and HEAD', async () => {
    const head = await get('/manifest', { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe('');
    const post = await get('/approvals/12', { method: 'POST', body: '{}' });
    expect(post.status).toBe(405);
    expect(post.headers.get('allow')).toBe('GET, HEAD');
  });
});

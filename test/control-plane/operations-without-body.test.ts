import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../control-plane/core/services.ts';
import { allRoutes } from '../../control-plane/routes.ts';
import type { AnyOperation } from '../../shared/contract/base/operation.ts';
import { type HostileApi, startHostileApi } from '../support/hostile/api.ts';

let api: HostileApi;
beforeAll(async () => {
  api = await startHostileApi();
});
afterAll(() => api.close());

const bodyless = allRoutes({} as Services)
  .map(({ operation }) => operation)
  .filter(({ body, bodyType }) => body === undefined && bodyType !== 'raw');

interface Sent {
  readonly body: string;
  readonly type?: string;
  readonly isChunked?: boolean;
}

const json = 'application/json';
const accepted: readonly Sent[] = [
  { body: '' },
  { body: '', type: json },
  { body: '', type: 'text/plain', isChunked: true },
  { body: '{}' },
  { body: '{}', type: json },
  { body: '{}', type: `${json}; charset=utf-8`, isChunked: true },
  { body: ' {\n} ', type: json },
];
const refused: readonly Sent[] = [
  { body: '{"a":1}', type: json },
  { body: '{"a":1}', isChunked: true },
  { body: '[]', type: json },
  { body: 'null', type: json },
  { body: '""', type: json },
  { body: '{', type: json },
  { body: '{}{}', type: json },
  { body: 'x' },
  { body: ' ' },
  { body: '\ufeff{}', type: json },
  { body: '{}', type: 'text/plain' },
  { body: 'a=b', type: 'application/x-www-form-urlencoded' },
  { body: `{${' '.repeat(10_000)}}`, type: json },
];

/** Uses node:http, because fetch sends no body with GET. */
function send(operation: AnyOperation, { body, type, isChunked = false }: Sent) {
  const { url, authorization } = api.addressOf(operation);
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const length = isChunked ? {} : { 'content-length': Buffer.byteLength(body) };
  const sent = request(url, {
    method: operation.method,
    agent: false,
    headers: {
      ...(authorization === undefined ? {} : { authorization }),
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(isChunked ? { 'transfer-encoding': 'chunked' } : length),
    },
  });
  sent.on('error', reject);
  sent.on('response', (response) => {
    const { statusCode: status = 0 } = response;
    let text = '';
    const done = () => resolve({ status, text });
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => {
      text += chunk;
    });
    response.on('end', done);
    // An endless stream is not read: its first byte is sufficient.
    if (response.headers['content-type']?.startsWith('text/event-stream') !== true) return;
    response.destroy();
    done();
  });
  sent.end(body);
  return promise;
}

const isBodyRefused = ({ status, text }: { readonly status: number; readonly text: string }) =>
  status === 400 && text.includes('takes no body') && text.includes('"request.invalid"');

describe.each(bodyless.map((operation) => [operation.id, operation] as const))(
  '%s, an operation without a body,',
  (_id, operation) => {
    it.each(accepted)('accepts $body ($type)', async (sent) => {
      const answer = await send(operation, sent);
      expect(isBodyRefused(answer), answer.text).toBe(false);
      expect(answer.status).toBeLessThan(500);
    });

    it.each(refused)('refuses $body ($type)', async (sent) => {
      const answer = await send(operation, sent);
      expect(isBodyRefused(answer), `${answer.status} ${answer.text}`).toBe(true);
    });
  },
);

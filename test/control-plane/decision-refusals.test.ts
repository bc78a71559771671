import { afterAll, describe, expect, it } from 'vitest';
import { actionRoutes } from '../../control-plane/actions/routes.ts';
import type { Services } from '../../control-plane/core/services.ts';
import { rawClient } from '../support/sidecar/raw-client.ts';
import { executeStage } from './actions/execute-stage.ts';

const stage = await executeStage();
const { api } = stage.gateway;
const key = await api.key({ scope: 'gateway' });
const portOf = () => Number(new URL(api.origin).port);
afterAll(() => stage.close());

const operations = actionRoutes({} as Services).map(({ operation }) => operation);
const whole = () => ({ ...stage.action(), mode: 'enforce' });
const text = (args: string) => JSON.stringify({ ...whole(), args: '@' }).replace('"@"', args);

const refused: readonly (readonly [
  string,
  number,
  string,
  () => Parameters<typeof api.send>[2],
])[] = [
  ['without a key', 401, 'auth.missing_key', () => ({ body: whole() })],
  ['with an unknown key', 401, 'auth.invalid_key', () => ({ key: 'apk_x', body: whole() })],
  ['with broken JSON', 400, 'args.schema_invalid', () => ({ key, body: '{"tool":' })],
  ['without a body', 400, 'args.schema_invalid', () => ({ key })],
  ['with an array as the body', 400, 'args.schema_invalid', () => ({ key, body: [] })],
  ['without a tool', 400, 'args.schema_invalid', () => ({ key, body: {} })],
  [
    'with a body whose media type is not JSON',
    400,
    'request.invalid',
    () => ({ key, body: 'a=b', headers: { 'content-type': 'text/plain' } }),
  ],
  [
    'with a compressed body',
    400,
    'args.encoding_invalid',
    () => ({ key, body: whole(), headers: { 'content-encoding': 'gzip' } }),
  ],
  ['with a duplicate key', 400, 'args.duplicate_key', () => ({ key, body: text('{"a":1,"a":2}') })],
  [
    'with a duplicate key that is escaped once',
    400,
    'args.duplicate_key',
    () => ({ key, body: text('{"to":1,"\\u0074o":2}') }),
  ],
  [
    'with names that differ only in case',
    400,
    'args.ambiguous',
    () => ({ key, body: text('{"to":1,"To":2}') }),
  ],
  [
    'with nested names that differ only in character width',
    400,
    'args.ambiguous',
    () => ({ key, body: text('{"x":[{"to":1,"\uff54o":2}]}') }),
  ],
  [
    'with two names that PHP reads as the same name',
    400,
    'args.ambiguous',
    () => ({ key, body: text('{"a.b":1,"a_b":2}') }),
  ],
  [
    'with a name that contains an invisible character',
    400,
    'args.encoding_invalid',
    () => ({ key, body: text('{"a\u200b":1}') }),
  ],
  [
    'with a number that a double cannot represent',
    400,
    'args.number_unsafe',
    () => ({ key, body: text('{"n":0.12345678901234567890}') }),
  ],
  [
    'with a body above the size limit',
    413,
    'request.body_too_large',
    () => ({ key, body: 'x'.repeat(1_100_000) }),
  ],
];

describe.each(operations.map((operation) => [operation.id, operation] as const))(
  '%s denies',
  (_id, { path, method }) => {
    it.each(refused)('a request %s', async (_what, status, reason_code, init) => {
      const answer = await api.send(method, `/api${path}`, init());
      expect({ status: answer.status, body: answer.body }).toMatchObject({
        status,
        body: { decision: 'deny', reason_code },
      });
    });

    it('a request with the method GET', async () => {
      const answer = await api.send('GET', `/api${path}`, { key });
      expect({ status: answer.status, body: answer.body }).toMatchObject({
        status: 405,
        body: { decision: 'deny', reason_code: 'request.method_not_allowed' },
      });
    });

    it('a request that is not valid HTTP', async () => {
      const { closed } = await rawClient(
        portOf(),
        `${method} /api${path} HTTP/1.1\r\nHost x\r\n\r\n`,
      );
      expect(await closed).toMatch(/^HTTP\/1\.1 400 [\s\S]*"decision":"deny"/);
    });

    it('a request whose head is too large', async () => {
      const head = `${method} /api${path} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`;
      const { closed } = await rawClient(portOf(), head);
      expect(await closed).toMatch(/^HTTP\/1\.1 431 [\s\S]*"decision":"deny"/);
    });
  },
);

it('simulate also refuses ambiguous names and duplicate keys', async () => {
  const simulate = (body: unknown) => api.send('POST', '/api/v1/simulate', { key, body });
  expect(await simulate(text('{"to":1,"To":2}'))).toMatchObject({
    status: 400,
    body: { reason_code: 'args.ambiguous' },
  });
  expect(await simulate(text('{"to":1,"to":2}'))).toMatchObject({
    status: 400,
    body: { reason_code: 'args.duplicate_key' },
  });
});

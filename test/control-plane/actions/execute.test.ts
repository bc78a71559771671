import { gzipSync } from 'node:zlib';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { executeStage, secret } from './execute-stage.ts';

const stage = await executeStage();
const { upstream, run, bind, eventById, services } = stage;
afterAll(() => stage.close());

const answer = (body: string | Buffer, headers: Record<string, string> = {}, status = 200) =>
  upstream.behave((_req, res) => res.writeHead(status, headers).end(body));
const asJson = { 'content-type': 'application/json' };

beforeEach(() => answer('{"done":true}', asJson));

describe('an allowed action', () => {
  it('is sent once, as the binding defines, and with the credential', async () => {
    const before = upstream.seen.length;
    const answered = await run();
    expect(answered).toMatchObject({
      decision: 'allow',
      executed: true,
      result: { status: 200, body: { done: true }, body_format: 'json', truncated: false },
    });
    expect(upstream.seen.length).toBe(before + 1);
    expect(upstream.seen.at(-1)).toMatchObject({
      method: 'POST',
      url: '/invoices/7/pay',
      body: '{"amount":40}',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    });
  });

  it('is sent with the binding’s headers, and with its arguments in the query if the method has no body', async () => {
    await bind('other', {
      resource: 'invoice:{invoice}',
      upstream: {
        url: `https://${stage.host}/invoices/{invoice}`,
        method: 'GET',
        headers: { 'x-version': '7' },
      },
    });
    expect(await run({ tool: 'other' })).toMatchObject({ executed: true });
    const seen = upstream.seen.at(-1);
    expect(seen).toMatchObject({ method: 'GET', url: '/invoices/7?amount=40', body: '' });
    expect(seen?.headers).toMatchObject({ 'x-version': '7' });
    // The credential is bound to other tools.
    expect(seen?.headers.authorization).toBeUndefined();
  });

  it('is recorded in two linked events: the decision before the call, and the result after it', async () => {
    let sealedBefore = 0;
    upstream.behave((_req, res) => {
      void services.db.evidenceRow
        .count({ where: { tenantId: 'default', type: 'decision', tool: 'pay' } })
        .then((count) => {
          sealedBefore = count;
          res.writeHead(201, asJson).end('{"id":"re_1"}');
        });
    });
    const decided = await services.db.evidenceRow.count({
      where: { tenantId: 'default', type: 'decision', tool: 'pay' },
    });
    const answered = await run();
    expect(sealedBefore).toBe(decided + 1);
    const decision = await eventById(answered.evidence_event_id);
    const result = await eventById(String(answered.result_event_id));
    expect(decision).toMatchObject({
      type: 'decision',
      decision: 'allow',
      chain_id: answered.chain_id,
      data: { point: 'enforcement', upstream: { binding: 'pay', host: stage.host } },
    });
    expect(result).toMatchObject({
      type: 'execution.result',
      chain_id: answered.chain_id,
      agent_id: stage.agentId,
      data: { decision_event_id: answered.evidence_event_id, executed: true, status: 201 },
    });
    expect(result.data.response_digest).toMatch(/^hmac-sha256:/);
    const salts = await services.db.evidenceSalt.count({
      where: { eventId: { in: [answered.evidence_event_id, String(answered.result_event_id)] } },
    });
    expect(salts).toBe(2);
  });
});

describe('the upstream’s response', () => {
  it.each<[string, string | Buffer, string, object]>([
    ['text', 'ok ✓', 'text/plain', { body: 'ok ✓', body_format: 'text' }],
    ['binary data', Buffer.from([0, 255, 1]), 'image/png', { body: 'AP8B', body_format: 'base64' }],
    ['an empty body', '', 'application/json', { body_format: 'none', body_bytes: 0 }],
    ['problem JSON', '{"a":[1]}', 'application/problem+json', { body: { a: [1] } }],
    ['a number that JSON rounds', '{"n":9007199254740993}', 'application/json', textOf(22)],
    ['a duplicate key', '{"a":1,"a":2}', 'application/json', textOf(13)],
    ['__proto__', '{"__proto__":{"a":1}}', 'application/json', textOf(21)],
    ['invalid JSON', '{"a":', 'application/json', { body: '{"a":', body_format: 'text' }],
  ])('is returned unchanged: %s', async (_what, body, type, expected) => {
    answer(body, { 'content-type': type }, 422);
    const { result, executed } = await run();
    expect({ executed, ...result }).toMatchObject({ executed: true, status: 422, ...expected });
  });

  it('includes the headers that callers need, and omits session headers', async () => {
    answer('{}', { ...asJson, etag: '"1"', 'set-cookie': 'sid=1', 'x-internal': '1' });
    const { result } = await run();
    expect(result?.headers).toMatchObject({ 'content-type': 'application/json', etag: '"1"' });
    expect(Object.keys(result?.headers ?? {})).not.toContain('set-cookie');
    expect(Object.keys(result?.headers ?? {})).not.toContain('x-internal');
  });

  it('is returned even if it is a redirect, which is not followed', async () => {
    const before = upstream.seen.length;
    answer('', { location: `https://${stage.host}/elsewhere` }, 307);
    const { result } = await run();
    expect(result).toMatchObject({ status: 307 });
    expect(result?.headers.location).toBe(`https://${stage.host}/elsewhere`);
    expect(upstream.seen.length).toBe(before + 1);
  });

  it.each<[string, (reflected: string) => void]>([
    ['in its body', (reflected) => answer(`{"you":"${reflected}"}`, asJson)],
    ['in a header', (reflected) => answer('{}', { ...asJson, 'x-request-id': reflected })],
    ['encoded as base64', (reflected) => answer(Buffer.from(`a${reflected}`).toString('base64'))],
    [
      'compressed',
      (reflected) => answer(gzipSync(`say ${reflected}`), { 'content-encoding': 'gzip' }),
    ],
  ])(
    'is withheld completely (body and headers) if it contains the credential %s',
    async (_where, reflect) => {
      reflect(secret);
      const sent = await stage.send();
      expect(sent.body).toMatchObject({
        decision: 'allow',
        executed: true,
        failure: { reason_code: 'credential.reflected' },
        result: { headers: {}, body_format: 'none' },
      });
      expect(sent.text).not.toContain(secret);
      const { data } = await eventById(String(sent.body?.result_event_id));
      expect(JSON.stringify(data)).not.toContain(secret);
    },
  );
});

/** Returns the result for a body that JSON parsers may read differently: the body is returned as text. */
function textOf(bytes: number) {
  return { body_format: 'text', body_bytes: bytes };
}

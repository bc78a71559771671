import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Disguise } from '../../support/disguises/disguise.ts';
import * as bodies from '../../support/disguises/header-and-body.ts';
import { callTo, type Spelling, spellings, targets } from '../../support/disguises/hosts.ts';
import { type LiveStage, startLiveStage } from '../../support/disguises/live-stage.ts';
import * as mcp from '../../support/disguises/mcp-call.ts';
import * as paths from '../../support/disguises/path-and-method.ts';
import { placeAt } from '../../support/disguises/place.ts';
import * as forms from '../../support/disguises/query-and-form.ts';
import { converse, type Transport } from '../../support/disguises/wire.ts';
import { Witness } from '../../support/disguises/witness.ts';

let stage: LiveStage;
const witness = new Witness();

beforeAll(async () => {
  stage = await startLiveStage();
  stage.recorder.take();
}, 90_000);
afterAll(() => stage?.close());

const tables: readonly [string, string, readonly Disguise[]][] = [
  ['its path', 'pay.too_large', paths.paths],
  ['its method', 'pay.too_large', paths.methods],
  ['its headers', 'pay.too_large', bodies.headers],
  ['its framing', 'pay.too_large', bodies.framing],
  ['its JSON', 'pay.too_large', bodies.json],
  ['its query', 'list.foreign', forms.queries],
  ['its form', 'pay.too_large', forms.forms],
  ['its MCP message', 'pay.too_large', mcp.messages],
  ['its MCP message without sessions', 'pay.too_large', mcp.modernMessages],
];
const transports: readonly Transport[] = ['plain', 'connect', 'tls'];

/** Cases that the ingress refuses. The recogniser would parse them if the ingress forwarded them. */
const refusedEarlier: ReadonlySet<string> = new Set([
  'absolute form',
  'absolute form with another host',
  'a fragment',
  'asterisk form',
  'a Host that differs from the target',
  'TRACE',
]);
const byIngress = ['proxy.request_invalid', 'proxy.host_mismatch', 'proxy.method_refused'];

function reasonsFor(name: string, becomes: string, denial: string): readonly string[] {
  if (refusedEarlier.has(name)) return [...byIngress, denial];
  if (becomes === 'unparsed') return ['proxy.request_invalid', 'closed'];
  if (becomes === 'other') return ['policy.no_match'];
  return [becomes === 'same' ? denial : becomes];
}

describe.each(tables)('a denied call disguised by %s', (_what, denial, disguises) => {
  describe.each(transports)('over %s', (transport) => {
    it.each(disguises)('does not reach the upstream: %s', async (name, bytes, becomes) => {
      const conversation = await stage.send(transport, bytes);
      expect(stage.recorder.take()).toBe('');
      witness.refused(conversation, reasonsFor(name, becomes, denial));
    });
  });
});

const becoming: Readonly<Record<string, readonly string[]>> = {
  same: ['pay.too_large'],
  other: ['policy.no_match'],
  invalid: ['proxy.request_invalid'],
};

describe('a denied call with an unusual spelling of its host', () => {
  const both = spellings.flatMap((spelling) => [
    [...spelling, 'plain'] as const,
    [...spelling, 'connect'] as const,
  ]);
  it.each(both)('does not reach the upstream: %s', async (_name, write, becomes, transport) => {
    const place = placeAt(stage.recorder.plainPort);
    const authority = write(place.port);
    const form = transport === 'plain' ? 'absolute' : 'origin';
    const way = { ...stage.way(transport), ...(transport === 'connect' && { authority }) };
    const conversation = await converse(way, callTo(authority, place, form));
    expect(stage.recorder.take()).toBe('');
    witness.refused(conversation, becoming[becomes] ?? []);
  });

  it.each(targets)('in a target with %s does not reach the upstream', async (...spelling) => {
    const [, write, becomes]: Spelling = spelling;
    const { path, rest, authority, port } = placeAt(stage.recorder.plainPort);
    const bytes = `POST ${write(port)}${path} HTTP/1.1\r\nHost: ${authority}\r\n${rest}`;
    const conversation = await converse(stage.way('plain'), Buffer.from(bytes));
    expect(stage.recorder.take()).toBe('');
    witness.refused(conversation, becoming[becomes] ?? []);
  });
});

describe('after these attacks', () => {
  it.each(transports)(
    'an allowed call over %s is the only call that the upstream receives',
    async (transport) => {
      expect(stage.recorder.take()).toBe('');
      expect(await stage.allowed(transport)).toMatch(/^POST [\s\S]*\{"amount":50\}$/);
    },
  );

  it('the ledger contains every refusal with its reason, and no internal.unexpected', async () => {
    expect(witness.recorded).toBeGreaterThan(500);
    await witness.agreesWithLedger(stage);
  });
});

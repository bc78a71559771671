import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalEvent,
  eventHash,
  eventText,
  placedText,
} from '../../../shared/ledger/canonical.ts';
import { type EvidenceEvent, genesisHash } from '../../../shared/ledger/event.ts';

const place = { tenantId: 'acme', position: 42, seq: 17 };
const event: EvidenceEvent = {
  agent_id: '7',
  chain_id: 'agent:7',
  data: { args: { amount: 12 } },
  decision: 'allow',
  id: 'ev_1',
  occurred_at: '2026-07-01T09:00:00.000Z',
  reason_code: 'ok',
  resource: 'customer:12',
  source: 'control-plane',
  tool: 'mcp.payments.refund',
  type: 'decision',
  user_id: 'user_1',
};

const anyText = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed());
const maybe = fc.option(anyText, { nil: undefined });
const anyEvent = fc.record({
  id: anyText,
  type: anyText,
  chain_id: anyText,
  occurred_at: anyText,
  source: anyText,
  agent_id: maybe,
  user_id: maybe,
  tool: maybe,
  resource: maybe,
  decision: maybe,
  reason_code: maybe,
  data: fc
    .dictionary(anyText, fc.jsonValue({ stringUnit: 'binary' }))
    .map((data) => JSON.parse(JSON.stringify(data))),
});

describe('the canonical text of an event', () => {
  it('is the JCS form of the event with tenant, position and seq', () => {
    expect(canonicalEvent(event, place)).toBe(
      '{"agent_id":"7","chain_id":"agent:7","data":{"args":{"amount":12}},"decision":"allow","id":"ev_1",' +
        '"occurred_at":"2026-07-01T09:00:00.000Z","position":42,"reason_code":"ok","resource":"customer:12",' +
        '"seq":17,"source":"control-plane","tenant":"acme","tool":"mcp.payments.refund","type":"decision",' +
        '"user_id":"user_1"}',
    );
  });

  it('equals the text of an independent implementation of RFC 8785, for any event', () => {
    fc.assert(
      fc.property(anyEvent, fc.nat(), fc.nat(), (any, position, seq) => {
        const sealed = { ...any, tenant: 'acme', position, seq };
        expect(canonicalEvent(any, { tenantId: 'acme', position, seq })).toBe(canonicalize(sealed));
      }),
      { numRuns: 500 },
    );
  });

  it('is the same for any order of the members', () => {
    const shuffled = Object.fromEntries(
      Object.entries(event).reverse(),
    ) as unknown as EvidenceEvent;
    expect(canonicalEvent(shuffled, place)).toBe(canonicalEvent(event, place));
    const nested = { ...event, data: { z: 1, a: { y: [{ d: 1, c: 2 }], b: null } } };
    expect(canonicalEvent(nested, place)).toContain('{"a":{"b":null,"y":[{"c":2,"d":1}]},"z":1}');
  });

  it('has integer-like keys in JCS order, not in the order of the JavaScript engine', () => {
    const data = { 9: 'nine', 10: 'ten', a: 1 };
    expect(canonicalEvent({ ...event, data }, place)).toContain('{"10":"ten","9":"nine","a":1}');
  });

  it('differs for different tenants, positions and chains', () => {
    const texts = [
      canonicalEvent(event, place),
      canonicalEvent(event, { ...place, tenantId: 'other' }),
      canonicalEvent(event, { ...place, position: 43 }),
      canonicalEvent(event, { ...place, seq: 18 }),
      canonicalEvent({ ...event, chain_id: 'agent:8' }, place),
    ];
    expect(new Set(texts).size).toBe(texts.length);
  });

  it('cannot contain a forged position, even if a field of the event contains JSON syntax', () => {
    const forged = {
      ...event,
      occurred_at: '","position":43,"x":"',
      resource: '","seq":99,"source":"x',
    };
    const read = JSON.parse(placedText(eventText('acme', forged), 42, 17));
    expect(read).toMatchObject({ ...forged, position: 42, seq: 17, tenant: 'acme' });
  });

  it.each([
    ['an unpaired surrogate in a text', { data: { text: '\ud800' } }],
    ['an unpaired surrogate in a key', { data: { '\udc00': 1 } }],
    ['an unpaired surrogate outside data', { tool: '\ud800' }],
    ['infinity', { data: { n: Number.POSITIVE_INFINITY } }],
    ['NaN', { data: { n: Number.NaN } }],
    ['a function', { data: { f: (() => 1) as never } }],
    ['a big integer', { data: { n: 1n as never } }],
    ['a hole in an array', { data: { list: new Array(2) as never } }],
    ['undefined in an array', { data: { list: [undefined] as never } }],
    ['endless nesting', { data: nested(200) }],
  ])('refuses %s', (_what, fields) => {
    expect(() => canonicalEvent({ ...event, ...fields }, place)).toThrow();
  });

  it('omits undefined members and writes minus zero as zero', () => {
    const bare = { ...event, agent_id: undefined, data: { a: undefined, b: -0 } };
    expect(canonicalEvent(bare, place)).toContain('{"chain_id":"agent:7","data":{"b":0},');
  });
});

function nested(depth: number) {
  let value: object = {};
  for (let level = 0; level < depth; level++) value = { value };
  return value as never;
}

describe('the hash of an event', () => {
  it('is SHA-256 over the previous hash, a line feed and the text', () => {
    // printf 'sha256:<64 zeros>\n{}' | sha256sum
    expect(eventHash(genesisHash, '{}')).toBe(
      'sha256:aceb32241c60f8a6e2b47ee3c8c04becfd38a917fa7183113898214f2d5f6490',
    );
  });
});

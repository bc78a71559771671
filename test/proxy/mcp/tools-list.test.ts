import { describe, expect, it } from 'vitest';
import { toolsListFilter } from '../../../proxy/mcp/tools-list.ts';

const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream; charset=utf-8' };
const good = { name: 'refund.list', description: 'Lists', inputSchema: { type: 'object' } };
const evil = { name: 'refund.create', description: 'changed', inputSchema: { type: 'object' } };
const answer = (tools: unknown, more: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  result: { tools, ...more },
});

function filterFor(bytesMax?: number) {
  const seen: { tool: string; description: unknown }[] = [];
  const filter = toolsListFilter({
    server: 'payments',
    observe: ({ tool, definition: { description } }) => {
      seen.push({ tool, description });
      return description === 'changed' ? 'withhold' : 'keep';
    },
    ...(bytesMax === undefined ? {} : { bytesMax }),
  });
  return { filter, seen };
}

function whole(value: unknown): unknown {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const out = filterFor().filter.whole?.(Buffer.from(text));
  return out === 'cut' || out === undefined ? out : JSON.parse(out.toString());
}

/** Sends a stream through the filter in pieces of `size` bytes; returns the filter's output. */
function streamed(text: string, size = 1, bytesMax?: number): string {
  const { filter } = filterFor(bytesMax);
  const bytes = Buffer.from(text, 'utf8');
  let out = '';
  for (let at = 0; at < bytes.length; at += size) {
    const piece = filter.chunk?.(bytes.subarray(at, at + size), false);
    if (piece === 'cut') return `${out}<cut>`;
    out += piece?.toString() ?? '';
  }
  return out + String(filter.chunk?.(Buffer.alloc(0), true));
}

describe('a tools/list response in JSON', () => {
  it('is forwarded without withheld tools and otherwise unchanged', () => {
    expect(whole(answer([good, evil], { nextCursor: 'c', _meta: { a: 1 }, ttlMs: 5 }))).toEqual(
      answer([good], { nextCursor: 'c', _meta: { a: 1 }, ttlMs: 5 }),
    );
  });

  it('reports every tool to the observer, with the name of the binding', () => {
    const { filter, seen } = filterFor();
    filter.whole?.(Buffer.from(JSON.stringify(answer([good, evil]))));
    expect(seen).toEqual([
      { tool: 'mcp.payments.refund.list', description: 'Lists' },
      { tool: 'mcp.payments.refund.create', description: 'changed' },
    ]);
  });

  it('is forwarded without entries that have no name or are not objects', () => {
    expect(
      whole(answer([{ description: 'x' }, { name: 7 }, null, 'refund.list', [], good])),
    ).toEqual(answer([good]));
  });

  it('contains at most the first of two tools with the same name; the second is not reported to the observer', () => {
    const { filter, seen } = filterFor();
    const changed = { ...good, description: 'changed' };
    for (const [tools, kept] of [
      [[good, changed], [good]],
      [[changed, good], []],
    ]) {
      const out = filter.whole?.(Buffer.from(JSON.stringify(answer(tools))));
      expect(JSON.parse(String(out))).toEqual(answer(kept));
    }
    expect(seen).toHaveLength(2);
  });

  it('is also filtered inside a batch', () => {
    expect(whole([answer([evil]), { jsonrpc: '2.0', id: 2, result: {} }])).toEqual([
      answer([]),
      { jsonrpc: '2.0', id: 2, result: {} },
    ]);
  });

  it('is accepted with numbers that a double cannot represent', () => {
    const text = JSON.stringify(answer([good])).replace(
      '"object"',
      '"object","maximum":18446744073709551615',
    );
    expect(whole(text)).toMatchObject({ result: { tools: [{ name: 'refund.list' }] } });
  });

  it.each([
    { jsonrpc: '2.0', id: 1, result: { content: [], isError: false } },
    { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'tools' } },
    { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
    { jsonrpc: '2.0', id: 1, result: { structuredContent: { tools: [evil] } } },
  ])('is forwarded byte for byte if it lists no tools (%#)', (message) => {
    const bytes = Buffer.from(JSON.stringify(message, null, 1));
    expect(filterFor().filter.whole?.(bytes)).toBe(bytes);
  });

  it.each([
    '{"result":{"tools":[]},"result":{"tools":[{"name":"evil"}]}}',
    '{"result":{"tools":[],"tools":[{"name":"evil"}]}}',
    '{"result":{},"Result":{"tools":[{"name":"evil"}]}}',
    '{"result":{"Tools":[{"name":"evil"}]}}',
    '{"result":{"tools":{"0":{"name":"evil"}}}}',
    '{"result":{"tools":[{"name":"evil"}],"x":NaN}}',
    '\ufeff{"result":{"tools":[]}}',
    '{"result":{"tools":[{"name":"evil"}',
    'tools',
  ])('is blocked because a client might parse it differently: %s', (text) => {
    expect(whole(text)).toBe('cut');
  });

  it('is blocked if it is longer than the limit', () => {
    const { filter } = filterFor(50);
    expect(filter.whole?.(Buffer.from(JSON.stringify(answer([good]))))).toBe('cut');
  });
});

describe('the tools/list filter', () => {
  it.each<[number, Record<string, string>, string]>([
    [200, json, 'buffer'],
    [200, events, 'stream'],
    [200, { 'Content-Type': 'Text/Event-Stream' }, 'stream'],
    [200, { ...events, 'content-encoding': 'gzip' }, 'cut'],
    [200, { ...json, 'content-encoding': 'br' }, 'cut'],
    [200, { ...json, 'content-encoding': 'identity' }, 'buffer'],
    [200, {}, 'buffer'],
    [200, { 'content-type': 'text/plain' }, 'buffer'],
    [202, {}, 'buffer'],
    [404, json, 'pass'],
    [500, events, 'pass'],
  ])('selects its mode by status and headers: %i with %j gives %s', (status, headers, expected) => {
    expect(filterFor().filter.head(status, headers)).toBe(expected);
  });

  it('leaves an empty response empty', () => {
    expect(filterFor().filter.whole?.(Buffer.alloc(0))).toHaveLength(0);
  });
});

describe('a tools/list response in an event stream', () => {
  const data = (value: unknown) => `data: ${JSON.stringify(value)}`;
  const filtered = `event: message\nid: 7\n${data(answer([good]))}\n\n`;

  it.each([1, 2, 3, 7, 64, 10_000])('is filtered when it arrives in pieces of %i bytes', (size) => {
    const stream = [
      ': comment\n\n',
      'id: 1\ndata:\n\n',
      `event: message\n${data({ jsonrpc: '2.0', method: 'notifications/progress', params: { ü: '€' } })}\n\n`,
      `event: message\nid: 7\n${data(answer([good, evil]))}\n\n`,
      'retry: 100\n\n',
    ];
    expect(streamed(stream.join(''), size)).toBe(
      [...stream.slice(0, 3), filtered, stream[4]].join(''),
    );
  });

  it.each(['\n', '\r\n', '\r'])('is filtered with lines that end in %j', (end) => {
    const lines = ['event: message', 'id: 7', data(answer([good, evil])), '', ''];
    for (const size of [1, 5, 10_000]) {
      expect(streamed(lines.join(end), size).replaceAll(/\r\n?/g, '\n').trim()).toBe(
        filtered.trim(),
      );
    }
  });

  it('is filtered when its data spans several lines', () => {
    const lines = JSON.stringify(answer([evil]), null, 1).split('\n');
    const text = `${lines.map((line) => `data:${line}`).join('\n')}\n\n`;
    expect(streamed(text)).toBe(`${data(answer([]))}\n\n`);
  });

  it('is filtered after a byte order mark', () => {
    expect(streamed(`\ufeff${data(answer([evil]))}\n\n`)).toBe(`${data(answer([]))}\n\n`);
  });

  it('is ended at an ambiguous event, after the earlier events were forwarded', () => {
    expect(streamed('data: {"a":1}\n\ndata: {"result":{"tools":[],"tools":[]}}\n\n')).toBe(
      'data: {"a":1}\n\n<cut>',
    );
  });

  it('is ended if an event is longer than the limit, whether complete or not', () => {
    expect(streamed(`data: ${'x'.repeat(100)}`, 10, 64)).toContain('<cut>');
    expect(streamed(`data: "${'x'.repeat(100)}"\n\n`, 10_000, 64)).toBe('<cut>');
    expect(streamed(`data: "x"\n\n${'data: "y"\n\n'.repeat(50)}`, 10_000, 64)).not.toContain('cut');
  });

  it('is forwarded without the incomplete event at the end of the stream', () => {
    expect(streamed(`data: {"a":1}\n\n${data(answer([evil]))}\n`)).toBe('data: {"a":1}\n\n');
  });

  it('is filtered in linear time if an event arrives byte by byte', () => {
    const started = performance.now();
    streamed(`data: "${'x'.repeat(1 << 20)}"\n\n`);
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gateway, rule, startGateway } from '../support/control-plane/gateway.ts';

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent();
});
afterAll(() => gateway?.close());

/** Generous, because the machine may be busy; an input that is slow by design takes minutes. */
const answeredWithinMs = 10_000;

const preflight = (more: object) =>
  gateway.post('/v1/actions/preflight', {
    tool: 'notes.write',
    resource: 'note:1',
    agent_id: agentId,
    user_id: 'u',
    ...more,
  });

async function timed<Answer>(work: Promise<Answer>): Promise<Answer> {
  const before = performance.now();
  const answer = await work;
  expect(performance.now() - before).toBeLessThan(answeredWithinMs);
  return answer;
}

/** Returns a text with many partial matches at every position, none of which completes. */
const restless = (length: number) => {
  let seed = 1;
  return Array.from({ length }, () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
    return 'aAbc'.charAt((seed >> 16) & 3);
  }).join('');
};

describe('a regular expression in a policy', () => {
  const search = (pattern: string) => ({ path: 'args.text', operator: 'matches', value: pattern });
  const patterns = [
    '(a+)+$',
    '(a|aa)+$',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
    '(.*)(.*)(.*)(.*)(.*)q$',
    '(?i)a.{400}q',
    '(?i)(a.{1,50}){8}q',
  ];

  it.each(patterns)('takes a bounded time on any text from an agent: %s', async (pattern) => {
    const tool = `patterns.p${patterns.indexOf(pattern)}`;
    const base = rule('deny', tool);
    const { all } = base.when as { all: object[] };
    await gateway.publish(rule('allow', tool), {
      ...base,
      when: { all: [...all, search(pattern)] },
    } as never);
    for (const text of [restless(900_000), `${'a'.repeat(900_000)}!`, 'a'.repeat(900_000)]) {
      const { status, body } = await timed(preflight({ tool, args: { text } }));
      expect(status).toBe(200);
      expect(['test.allow', 'test.deny']).toContain(body?.reason_code);
    }
  });

  it('does not match in an allow rule, but matches in a deny rule, if the text is too long to search', async () => {
    const tool = 'patterns.long';
    const isTool = { path: 'tool.name', operator: '==', value: tool };
    const when = { all: [isTool, search('(?i)a.{400}q')] };
    const allowing = { ...rule('allow', tool), name: 'search allows', when };
    await gateway.publish(allowing as never);
    const text = restless(900_000);
    expect((await preflight({ tool, args: { text } })).body?.reason_code).toBe('policy.no_match');
    const short = `${'a'.repeat(401)}q`;
    expect((await preflight({ tool, args: { text: short } })).body?.decision).toBe('allow');
    await gateway.publish(rule('allow', tool), {
      ...rule('deny', tool),
      reason: 'test.searched',
      when,
    } as never);
    expect((await preflight({ tool, args: { text } })).body?.reason_code).toBe('test.searched');
    expect((await preflight({ tool, args: { text: 'x' } })).body?.decision).toBe('allow');
  });

  it.each(['(', '(?=a)a', '(a)\\1', 'a{1001}', '(((a{100}){100}){100})'])(
    'is refused if it cannot be searched in linear time: %s',
    async (pattern) => {
      const { status, body } = await timed(
        gateway.post('/v1/policies', {
          name: 'p',
          rules_json: {
            id: 'p',
            version: 1,
            rules: [{ name: 'r', decision: 'deny', reason: 'r', when: { all: [search(pattern)] } }],
          },
        }),
      );
      expect([status, body?.reason_code]).toEqual([400, 'policy.invalid']);
    },
  );
});

describe('a glob that matches slowly', () => {
  const winding = `${'*a'.repeat(120)}*b`;

  it('takes a bounded time in a decision', async () => {
    const kill = { kind: 'block_tool', tool: winding.slice(0, 250), reason: 'r' };
    expect(kill.tool.length).toBeLessThanOrEqual(256);
    const owner = await gateway.api.key();
    await gateway.api.send('POST', '/api/v1/runtime/kill-switches', { key: owner, body: kill });
    const { status } = await timed(preflight({ tool: 'a'.repeat(256) }));
    expect(status).toBe(200);
  });

  it('takes a bounded time when it is intersected with an agent’s capabilities', async () => {
    const bot = await gateway.agent(
      'winding',
      Array.from({ length: 50 }, (_, n) => `${'*.a'.repeat(40)}.x${n}*`),
    );
    const { status, body } = await timed(
      gateway.post('/v1/agents/issue-passport', {
        agent_id: Number(bot),
        requested_tools: Array.from({ length: 50 }, (_, n) => `${'**.a'.repeat(40)}.x${n}*`),
      }),
    );
    expect([status, body?.reason_code]).toEqual([403, 'passport.tool_not_allowed']);
  });
});

describe('an inputSchema of a tool', () => {
  const ingest = (name: string, inputSchema: object) =>
    gateway.post('/v1/tools/ingest', { manifest: { name, inputSchema } });

  it('is evaluated in bounded time if it contains a catastrophic pattern', async () => {
    const schema = { type: 'object', properties: { text: { type: 'string', pattern: '^(a+)+$' } } };
    expect((await ingest('schemas.pattern', schema)).status).toBe(200);
    await gateway.publish(rule('allow', 'schemas.pattern'));
    const args = { text: `${'a'.repeat(900_000)}!` };
    const { body } = await timed(preflight({ tool: 'schemas.pattern', args }));
    expect(body?.reason_code).toBe('args.schema_invalid');
  });

  it.each([
    [undefined, '$defs'],
    ['http://json-schema.org/draft-07/schema#', 'definitions'],
  ])(
    'causes a denial after a bounded time if its references expand 2^40 times (dialect %s, definitions in %s)',
    async (dialect, place) => {
      const defs: Record<string, object> = { d0: { type: 'object' } };
      for (let n = 1; n <= 40; n++) {
        const $ref = `#/${place}/d${n - 1}`;
        defs[`d${n}`] = { allOf: [{ $ref }, { $ref }] };
      }
      const tool = `schemas.${place}`;
      const schema = {
        ...(dialect === undefined ? {} : { $schema: dialect }),
        type: 'object',
        [place]: defs,
        allOf: [{ $ref: `#/${place}/d40` }],
      };
      expect((await timed(ingest(tool, schema))).status).toBe(200);
      await gateway.publish(rule('allow', tool));
      const { body } = await timed(preflight({ tool, args: {} }));
      expect(body?.reason_code).toBe('args.schema_invalid');
    },
  );

  it('causes a denial after a bounded time if it branches at every level of the arguments', async () => {
    const $ref = '#/$defs/node';
    const node = { type: 'object', properties: { a: { allOf: [{ $ref }, { $ref }] } } };
    const schema = { type: 'object', $defs: { node }, properties: { a: { $ref } } };
    await ingest('schemas.branching', schema);
    await gateway.publish(rule('allow', 'schemas.branching'));
    const deep = (levels: number): object => (levels === 0 ? {} : { a: deep(levels - 1) });
    const call = (levels: number) =>
      timed(preflight({ tool: 'schemas.branching', args: deep(levels) }));
    expect((await call(8)).body?.decision).toBe('allow');
    expect((await call(60)).body?.reason_code).toBe('args.schema_invalid');
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { warnUnknownTools } from '../../../control-plane/tools/warn-unknown-tools.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { armKillSwitch } from '../../../shared/contract/kill-switches.ts';
import { createPolicy, updatePolicy } from '../../../shared/contract/policies/policies.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
  const { owner } = gateway;
  await owner.call(putBinding, {
    params: { name: 'refunds' },
    body: {
      protocol: 'http',
      host: 'api.example',
      method: 'POST',
      path: '/refunds',
      body: 'json',
      tool: 'payments.refund',
      resource: 'order:1',
    },
  });
  await owner.call(putBinding, {
    params: { name: 'crm' },
    body: { protocol: 'mcp', host: 'crm.example', path: '/mcp' },
  });
});
afterAll(() => gateway.close());

async function arm(tool: string) {
  const body = { kind: 'block_tool', tool, reason: 'drill' } as const;
  return (await gateway.owner.call(armKillSwitch, { body })).warnings;
}

describe('a kill switch', () => {
  it.each([
    'payments.refund',
    'payments.*',
    'mcp.crm.find',
    'mcp.crm.*',
    'mcp.**',
    'http.get.anything.example',
    '**',
  ])('on the tool or pattern %s, which is known, causes no warning', async (tool) => {
    expect(await arm(tool)).toBeUndefined();
  });

  it.each([
    ['payments.refnd', 'payments.refund'],
    ['pyments.*', 'payments.*'],
    ['mcp.crn.*', 'mcp.crm.*'],
  ])('on %s warns that no known tool matches, and suggests %s', async (tool, nearest) => {
    // Arming a switch for a tool does not make the tool known.
    await arm(tool);
    expect(await arm(tool)).toEqual([
      `tool: "${tool}" matches no tool that is registered, bound or was called before; did you mean "${nearest}"?`,
    ]);
  });
});

it('a tool id that differs slightly from a known tool of the same MCP server causes a warning', async () => {
  const manifest = { name: 'mcp.crm.find_customer', version: '1.0.0', description: 'A tool' };
  await gateway.owner.call(ingestTool, { body: { manifest } as never });
  for (const tool of ['mcp.crm.find_custmer', 'mcp.crm.find_cutsomer']) {
    expect(await arm(tool)).toEqual([
      `tool: "${tool}" is no tool of this MCP server that is registered or was called before; did you mean "mcp.crm.find_customer"?`,
    ]);
  }
  for (const tool of ['mcp.crm.find_customer', 'mcp.crm.export', 'mcp.crm.find_*']) {
    expect(await arm(tool)).toBeUndefined();
  }
});

it('an agent is registered with a warning for each capability that matches no known tool', async () => {
  const body = { name: 'bot', capabilities: ['payments.refund', 'payment.refund', 'mcp.crm.*'] };
  const { agent_id, warnings } = await gateway.owner.call(registerAgent, { body });
  expect(agent_id).toBeGreaterThan(0);
  expect(warnings).toEqual([
    expect.stringContaining('capabilities: "payment.refund" matches no tool'),
  ]);
});

it('a policy is stored and published with warnings for unknown tools in its rules', async () => {
  const rules_json = {
    id: 'tools',
    version: 1,
    applies_to: { tools: ['payments.*', 'payrol.*'] },
    rules: [
      {
        name: 'small',
        decision: 'allow',
        reason: 'test.small',
        when: {
          all: [
            { path: 'tool.name', operator: 'in', value: ['payments.refund', 'payments.rfund'] },
            { path: 'args.amount', operator: '<', value: 10 },
          ],
        },
      },
    ],
  };
  const expected = [
    expect.stringContaining('applies_to.tools: "payrol.*"'),
    expect.stringContaining('rule small: "payments.rfund"'),
  ];
  const body = { name: 'tools', rules_json, publish: false };
  const draft = await gateway.owner.call(createPolicy, { body });
  expect(draft.warnings).toEqual(expected);
  const published = await gateway.owner.call(updatePolicy, {
    params: { id: String(draft.id) },
    body: { lifecycle: 'published' },
  });
  expect([published.lifecycle, published.warnings]).toEqual(['published', expected]);
});

it('a tool that was called or registered before is known', async () => {
  expect(await arm('seen.before')).toHaveLength(1);
  const agent_id = await gateway.agent('caller', ['**']);
  await gateway.owner
    .call(preflight, { body: { agent_id, user_id: 'u', tool: 'seen.before', resource: 'r' } })
    .catch(() => undefined);
  await gateway.owner.call(ingestTool, { body: { manifest: { name: 'registered.tool' } } });
  expect([await arm('seen.*'), await arm('registered.tool')]).toEqual([undefined, undefined]);
});

it('many unknown tools cause a bounded list of warnings', async () => {
  const tools = Array.from({ length: 1_000 }, (_, at) => `unknown.${'x'.repeat(200)}${at}`);
  const { services } = gateway;
  const { warnings = [] } = await warnUnknownTools(services, 'default', [{ field: 'f', tools }]);
  expect(warnings).toHaveLength(21);
  expect(warnings.at(-1)).toBe('980 more match no known tool.');
});

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pythonWith } from '../../support/programs/python.ts';
import type { LineClient } from '../clients/line-client.ts';
import { connect, refundTool } from '../clients/matrix.ts';
import { type ClientStage, secret, startClientStage } from '../clients/stage.ts';

const file = (name: string) => join(import.meta.dirname, name);

let stage: ClientStage;
let python: string;
// The first run installs the frameworks.
beforeAll(async () => {
  [stage, python] = await Promise.all([startClientStage(), pythonWith(file('requirements.txt'))]);
}, 900_000);
afterAll(() => stage?.close());

let given = 100;
/** Returns an amount that no other call of this file has. */
function fresh(): number {
  given += 1;
  return given;
}

const performedWith = (amount: number) =>
  stage.performed.filter((one) => one.amount === amount).map(({ authorization }) => authorization);

describe.each([
  ['the OpenAI Agents SDK', 'openai_agents.py'],
  ['the MCP adapters of LangChain', 'langchain_tools.py'],
  ['Pydantic AI', 'pydantic_agent.py'],
])('%s', (_, program) => {
  let client: LineClient;
  beforeAll(async () => {
    client = stage.client([python, file(program)]);
    const url = `https://localhost:${stage.port('https')}/sessions/mcp`;
    expect(await connect(client, url)).toEqual(['refund']);
  }, 120_000);

  it('gives the model the result of an allowed call', async () => {
    const amount = fresh() / 1000;
    expect(await refundTool(client, amount)).toContain(`refunded ${amount}`);
    expect(performedWith(amount)).toEqual([`Bearer ${secret}`]);
  });

  it('gives the model the reason of a denial, and does not repeat the call', async () => {
    const amount = 1000 + fresh();
    const denied = await refundTool(client, amount);
    expect(denied).toContain('refund.out_of_policy');
    expect(denied).toContain('Do not retry the same call');
    expect(performedWith(amount)).toEqual([]);
  });

  it('waits while a human approves', async () => {
    const amount = fresh();
    const held = refundTool(client, amount);
    await stage.approve(amount);
    expect(await held).toContain(`refunded ${amount}`);
    expect(performedWith(amount)).toEqual([`Bearer ${secret}`]);
  });

  it('exits without an error', async () => {
    expect(await client.end()).toBe(0);
  });
});

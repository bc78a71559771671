import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import type { LineClient } from './line-client.ts';
import {
  type ClientUnderTest,
  call,
  connect,
  findRuntimes,
  httpClients,
  mcpClients,
  type Runtimes,
  refundTool,
} from './matrix.ts';
import { type ClientStage, type Scheme, schemes, secret, startClientStage } from './stage.ts';

let stage: ClientStage;
let runtimes: Runtimes;

// The first run installs Python packages and builds Go's standard library.
beforeAll(async () => {
  [stage, runtimes] = await Promise.all([startClientStage(), findRuntimes()]);
}, 600_000);
afterAll(() => stage?.close());

const start = ({ command }: ClientUnderTest) => stage.client(command(runtimes));

function named(name: string): ClientUnderTest {
  const found = httpClients.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no client is named ${name}`);
  return found;
}

let given = 100;
/** Returns an amount that no other call of this file has. */
function fresh(): number {
  given += 1;
  return given;
}
const amountOf = {
  small: () => fresh() / 1000,
  medium: () => fresh(),
  large: () => 1000 + fresh(),
};

/**
 * Returns the credentials with which the upstream performed refunds of this amount, one for each
 * refund.
 */
const performedWith = (amount: number) =>
  stage.performed.filter((one) => one.amount === amount).map(({ authorization }) => authorization);
const onceWithCredential = [`Bearer ${secret}`];

const denial = {
  decision: 'deny',
  reason_code: 'refund.out_of_policy',
  evidence_event_id: expect.stringMatching(/^ev_/),
  next_steps: [expect.stringContaining('Do not retry the same call')],
};

describe.each(httpClients)('$name', (under) => {
  let client: LineClient;
  beforeAll(() => {
    client = start(under);
  });

  describe.each(schemes)('over %s', (scheme: Scheme) => {
    const refund = (amount: number) =>
      call(client, `${scheme}://${under.host}:${stage.port(scheme)}/v1/refunds`, { amount });

    it('gets an allowed call performed with a credential that the client never holds', async () => {
      const amount = amountOf.small();
      expect(await refund(amount)).toMatchObject({ status: 200, body: { refunded: amount } });
      expect(performedWith(amount)).toEqual(onceWithCredential);
    });

    it('reads the reason and the next step of a denial, and continues', async () => {
      const amount = amountOf.large();
      expect(await refund(amount)).toMatchObject({ status: 403, body: denial });
      expect(performedWith(amount)).toEqual([]);
      expect((await refund(amountOf.small())).status).toBe(200);
    });

    it('waits while a human approves, and gets the response', async () => {
      const amount = amountOf.medium();
      const held = refund(amount);
      await stage.approve(amount);
      expect(await held).toMatchObject({ status: 200, body: { refunded: amount } });
      expect(performedWith(amount)).toEqual(onceWithCredential);
    });
  });

  it('exits without an error', async () => {
    expect(await client.end()).toBe(0);
  });
});

it.each(['ws', 'wss'] as const)(
  'a %s connection of aiohttp cannot bypass the sidecar and is refused',
  async (scheme) => {
    const client = start(named('aiohttp'));
    const port = stage.port(scheme === 'ws' ? 'http' : 'https');
    expect(await client.ask('WS', `${scheme}://localhost:${port}/v1/refunds`)).toMatch(/^40[03]$/);
    await client.end();
  },
);

const servers = [
  ['a server of 2026-07-28', '/mcp'],
  ['a server with sessions', '/sessions/mcp'],
] as const;

describe.each(mcpClients)('$name', (under) => {
  let client: LineClient;
  beforeAll(() => {
    client = start(under);
  });

  describe.each(schemes)('over %s', (scheme: Scheme) => {
    describe.each(servers)('to %s', (_, path) => {
      it('connects and lists tools', async () => {
        const url = `${scheme}://localhost:${stage.port(scheme)}${path}`;
        expect(await connect(client, url)).toEqual(['refund']);
      });

      it('gets an allowed call performed with a credential that the client never holds', async () => {
        const amount = amountOf.small();
        expect(await refundTool(client, amount)).toMatchObject(refunded(amount));
        expect(performedWith(amount)).toEqual(onceWithCredential);
      });

      it('reads a denial as a tool result, and continues its session', async () => {
        const amount = amountOf.large();
        expect(await refundTool(client, amount)).toMatchObject({
          isError: true,
          content: [
            { type: 'text', text: expect.stringMatching(/^Denied: refund\.out_of_policy/) },
          ],
          structuredContent: denial,
        });
        expect(performedWith(amount)).toEqual([]);
        const next = amountOf.small();
        expect(await refundTool(client, next)).toMatchObject(refunded(next));
      });

      it('waits while a human approves, and gets the result', async () => {
        const amount = amountOf.medium();
        const held = refundTool(client, amount);
        await stage.approve(amount);
        expect(await held).toMatchObject(refunded(amount));
        expect(performedWith(amount)).toEqual(onceWithCredential);
      });
    });
  });

  it('exits without an error', async () => {
    expect(await client.end()).toBe(0);
  });
});

function refunded(amount: number) {
  return { content: [{ type: 'text', text: `refunded ${amount}` }] };
}

describe('an approval that takes longer than the hold', () => {
  beforeAll(() => stage.hold(1));

  const patient = httpClients.filter(({ name }) => name === 'curl' || name === 'requests');
  it.each(patient)(
    'is reported to $name with its URL, and the repeated call is performed once',
    async (under) => {
      const client = start(under);
      const url = `https://localhost:${stage.port('https')}/v1/refunds`;
      const amount = amountOf.medium();
      const answer = await call(client, url, { amount });
      const location = expect.stringMatching(/^http:\/\/sallyport\.internal\/approvals\/\d+$/);
      expect(answer).toMatchObject({
        status: 202,
        location,
        body: { decision: 'require_approval' },
      });
      const status = async () => (await call(client, answer.location)).body.status;
      expect(await status()).toBe('pending');
      await stage.approve(amount);
      await until('the agent sees the grant', async () => (await status()) === 'approved');
      expect(performedWith(amount)).toEqual([]);
      expect((await call(client, url, { amount })).status).toBe(200);
      expect((await call(client, url, { amount })).status).toBe(202);
      expect(performedWith(amount)).toEqual(onceWithCredential);
      await client.end();
    },
  );

  it.each(mcpClients)(
    'is reported to $name in a tool result, and the repeated call is performed once',
    async (under) => {
      const client = start(under);
      const asking = start(named('curl'));
      await connect(client, `https://localhost:${stage.port('https')}/sessions/mcp`);
      const amount = amountOf.medium();
      const first = (await refundTool(client, amount)) as ToolResult;
      expect(first).toMatchObject({
        isError: true,
        structuredContent: { decision: 'require_approval' },
      });
      const { approval_request_id: id } = first.structuredContent;
      const location = `http://sallyport.internal/approvals/${id}`;
      expect(first.content[0].text).toContain(`GET ${location}`);
      await stage.approve(amount);
      await until(
        'the agent sees the grant',
        async () => (await call(asking, location)).body.status === 'approved',
      );
      expect(await refundTool(client, amount)).toMatchObject(refunded(amount));
      expect(performedWith(amount)).toEqual(onceWithCredential);
      await Promise.all([client.end(), asking.end()]);
    },
  );
});

interface ToolResult {
  readonly content: readonly [{ readonly text: string }];
  readonly structuredContent: { readonly approval_request_id: string };
}

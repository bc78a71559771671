import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LineClient } from '../clients/line-client.ts';
import { connect, refundTool } from '../clients/matrix.ts';
import {
  clientNames,
  type MatrixStage,
  serverNames,
  startMatrixStage,
  type Transport,
  transports,
} from './matrix.ts';

let stage: MatrixStage;
// The first run installs Python packages, and downloads and builds the Go SDK.
beforeAll(async () => {
  stage = await startMatrixStage();
}, 900_000);
afterAll(() => stage?.close());

let given = 100;
/** Returns an amount that no other call of this file has. */
function fresh(): number {
  given += 1;
  return given;
}

const refunded = (amount: number) => ({
  content: [{ type: 'text', text: `refunded ${amount}` }],
});

describe.each(clientNames)('a client of %s', (clientName) => {
  let client: LineClient;
  beforeAll(() => {
    client = stage.client(clientName);
  });

  const pairs = transports.flatMap((transport) =>
    serverNames.map((server): [string, Transport] => [server, transport]),
  );
  it.each(pairs)(
    'makes an allowed call, a denied call and a call that a human approves, at the server %s over %s',
    async (server, transport) => {
      expect(await connect(client, stage.target(server, transport))).toEqual(['refund']);

      const small = fresh() / 1000;
      expect(await refundTool(client, small)).toMatchObject(refunded(small));
      expect(stage.performed(small)).toBe(1);

      const large = 1000 + fresh();
      expect(await refundTool(client, large)).toMatchObject({
        isError: true,
        content: [{ type: 'text', text: expect.stringMatching(/^Denied: refund\.out_of_policy/) }],
      });
      expect(stage.performed(large)).toBe(0);

      const medium = fresh();
      const held = refundTool(client, medium);
      await stage.approve(medium);
      expect(await held).toMatchObject(refunded(medium));
      expect(stage.performed(medium)).toBe(1);

      await client.ask('close');
    },
    120_000,
  );

  it('exits without an error', async () => {
    expect(await client.end()).toBe(0);
  });
});

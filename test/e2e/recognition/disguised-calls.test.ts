import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  bodyCarriers,
  type Carrier,
  framingCarriers,
  headerCarriers,
} from '../../support/disguises/carriers.ts';
import { connections } from '../../support/disguises/connections.ts';
import { dressed, type LiveStage, startLiveStage } from '../../support/disguises/live-stage.ts';
import { mcpCarriers, opaqueCarriers } from '../../support/disguises/mcp-carriers.ts';
import { amountsIn, mutation, writeMutation } from '../../support/disguises/mutations.ts';
import { marker, placeAt } from '../../support/disguises/place.ts';
import { type Conversation, converse, type Transport } from '../../support/disguises/wire.ts';
import { Witness } from '../../support/disguises/witness.ts';

let stage: LiveStage;
const witness = new Witness();

beforeAll(async () => {
  stage = await startLiveStage();
  stage.recorder.take();
}, 90_000);
afterAll(() => stage?.close());

const transports: readonly Transport[] = ['plain', 'tls'];

/**
 * Expects that the request is refused completely, or is performed once without any part of the denied call.
 */
function judge({ answers, rest }: Conversation, becomes: string): void {
  const arrived = stage.recorder.take();
  expect(arrived).not.toContain(marker);
  if (becomes !== 'harmless') {
    expect(arrived).toBe('');
    const reasons = becomes === 'invalid' ? ['proxy.request_invalid', 'closed'] : [becomes];
    witness.refused({ answers, rest }, reasons);
    return;
  }
  expect(arrived.match(/ HTTP\/1\.1\r\n/g)).toHaveLength(1);
  expect(answers[0]?.status).toBe(200);
  const behind = ['pay.too_large', 'proxy.method_refused', 'proxy.request_invalid', 'closed'];
  witness.refused({ answers: answers.slice(1), rest }, behind);
}

const carriers: readonly [string, readonly Carrier[]][] = [
  ['a header', headerCarriers],
  ['the body', bodyCarriers],
  ['the framing', framingCarriers],
  ['the MCP message', mcpCarriers],
];

describe.each(carriers)('a denied call hidden in %s of an allowed call', (_where, hidden) => {
  describe.each(transports)('over %s', (transport) => {
    it.each(hidden)('does not reach the upstream: %s', async (_name, bytes, becomes) => {
      judge(await stage.send(transport, bytes), becomes);
    });
  });
});

describe('a denied call on a host without bindings', () => {
  it.each(opaqueCarriers)('does not reach the upstream: %s', async (_name, bytes, becomes) => {
    const authority = `127.0.0.1:${stage.recorder.openPort}`;
    const way = { ...stage.way('plain'), authority };
    judge(await converse(way, dressed(bytes, way)), becomes);
  });
});

describe('a denied call in an unsupported or unusual protocol, version or form', () => {
  it.each(connections)(
    'does not reach the upstream: %s over %s',
    async (_name, transport, write, becomes) => {
      const way = stage.way(transport);
      const place = placeAt(Number(way.authority.split(':')[1]));
      const conversation = await converse(way, Buffer.from(write(place), 'latin1'));
      expect(stage.recorder.take()).toBe('');
      witness.refused(conversation, becomes);
    },
  );
});

describe('a denied call with random changes', () => {
  const seed = 20_261_121;
  it(`is never performed with an amount that was denied (seed ${seed})`, async () => {
    const way = stage.way('plain');
    const place = placeAt(stage.recorder.plainPort);
    let performed = 0;
    await fc.assert(
      fc.asyncProperty(mutation, async (changes) => {
        const { answers } = await converse(way, writeMutation(place, changes));
        for (const { status } of answers) expect(status).toBeLessThan(500);
        if (answers[0]?.status === 200) performed += 1;
        for (const amount of amountsIn(stage.recorder.take())) {
          expect(amount).toBeLessThanOrEqual(100);
        }
      }),
      { seed, numRuns: 300 },
    );
    // Some changes, for example a sign or an exponent, turn the denied call into an allowed one.
    expect(performed).toBeGreaterThan(0);
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
    expect(witness.recorded).toBeGreaterThan(100);
    await witness.agreesWithLedger(stage);
  });
});

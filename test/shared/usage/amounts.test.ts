import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { JsonValue } from '../../../shared/base/json.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { amountMax, amountOf, amountsIn } from '../../../shared/usage/amounts.ts';
import { tallyOf } from '../../../shared/usage/tally.ts';

it.each<[JsonValue | undefined, number]>([
  [20, 20],
  [0.5, 0.5],
  ['20', 20],
  [' +020.50 ', 20.5],
  ['1e3', 1000],
  // Counts 900, because a parser that stops at the `e` would read this amount.
  ['900e-1', 900],
  [-20, 0],
  ['-20', 0],
  ['-1e3', 0],
  ['twenty', 0],
  ['0x10', 0],
  ['', 0],
  ['20 EUR', 0],
  [undefined, 0],
  [null, 0],
  [true, 0],
  [[20], 0],
  [{ value: 20 }, 0],
  [1e300, amountMax],
  ['9e999', amountMax],
])('the value %j adds %d to a sum', (value, amount) => {
  expect(amountOf(value)).toBe(amount);
});

it('any value from an agent adds a finite, non-negative number to a sum', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const amount = amountOf(value as JsonValue);
      expect(amount).toBeGreaterThanOrEqual(0);
      expect(amount).toBeLessThanOrEqual(amountMax);
    }),
  );
});

it('values are read from dotted paths below args, and absent values are omitted', () => {
  const args = { amount: 5, order: { total: '7.5', lines: [{ price: 2 }] }, refund: -3 };
  const paths = [
    'amount',
    'order.total',
    'order.lines.0.price',
    'refund',
    'nowhere',
    'constructor',
  ];
  expect(amountsIn(args, paths)).toEqual({
    amount: 5,
    'order.total': 7.5,
    'order.lines.0.price': 2,
  });
});

const event = (data: EvidenceEvent['data'], more: Partial<EvidenceEvent> = {}): EvidenceEvent => ({
  id: 'ev_1',
  type: 'decision',
  chain_id: 'agent:7',
  occurred_at: '2026-11-20T10:00:59.999Z',
  source: 'sidecar:s',
  agent_id: '7',
  tool: 'pay',
  data,
  ...more,
});

it('an event adds one call, and each of its values is added to its sum once', () => {
  const at = { agentId: '7', tool: 'pay', minute: 29_919_480, source: 'sidecar:s/run_1' };
  expect(tallyOf(event({ usage: { amount: 5 }, usage_run: 'run_1' }))).toEqual([
    { ...at, path: '', amount: 1 },
    { ...at, path: 'amount', amount: 5 },
  ]);
});

it.each<[string, EvidenceEvent]>([
  ['has no usage', event({ risk_tier: 'low' })],
  ['has usage that is not an object', event({ usage: [1] })],
  ['is of another type', event({ usage: {} }, { type: 'execution.result' })],
  ['has no agent', event({ usage: {} }, { agent_id: undefined })],
])('an event is not counted if it %s', (_what, given) => {
  expect(tallyOf(given)).toEqual([]);
});

it('the counts of any event from a sidecar fit into a database row', () => {
  const wild = fc.dictionary(fc.string({ unit: 'binary', maxLength: 300 }), fc.jsonValue());
  const texts = fc.string({ unit: 'binary', maxLength: 600 });
  fc.assert(
    fc.property(
      wild,
      texts,
      texts,
      fc.integer({ min: 1000, max: 9999 }),
      (usage, tool, run, year) => {
        const given = event({ usage, usage_run: run } as EvidenceEvent['data'], {
          tool,
          occurred_at: `${year}-01-01T00:00:00.000Z`,
        });
        for (const { tool: named, path, source, amount, minute } of tallyOf(given)) {
          for (const text of [named, path, source]) {
            expect(text.length).toBeLessThanOrEqual(400);
            expect(text.includes('\0') || !text.isWellFormed()).toBe(false);
          }
          expect(amount).toBeGreaterThan(0);
          expect(amount).toBeLessThanOrEqual(amountMax);
          expect(Math.abs(minute)).toBeLessThan(2 ** 31);
        }
      },
    ),
    { numRuns: 30 },
  );
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Buckets, dayMs, hourMs, minuteMs, minuteOf } from '../../../shared/usage/buckets.ts';
import { asDecimal, ToolUsage } from '../../../shared/usage/tool-usage.ts';
import { UsageBook } from '../../../shared/usage/usage-book.ts';
import type { Sums } from '../../../shared/vocabulary/verdict.ts';

const startMs = 1_800_000_000_000;

interface Call {
  readonly atMs: number;
  readonly amount: number;
  /** Whether this decider counted the call or received the count from another one. */
  readonly where: 'here' | 'elsewhere';
  readonly isGivenBack: boolean;
}

const call: fc.Arbitrary<Call> = fc.record({
  // Times within two and a half days, in any order, because clocks are changed.
  atMs: fc.integer({ min: 0, max: 60 * hourMs }).map((ms) => startMs + ms),
  amount: fc.constantFrom(0, 1, 2, 40, 1000),
  where: fc.constantFrom('here', 'elsewhere'),
  isGivenBack: fc.boolean(),
});

const sumsOf = ({ amount }: Call): Sums => (amount > 0 ? { amount } : {});

/**
 * The reference implementation: a call counts as if it were made in the last moment of its minute.
 */
function naive(calls: readonly Call[], nowMs: number, windowMs: number): readonly Call[] {
  return calls.filter(({ atMs }) => {
    const endOfMinute = atMs - (atMs % minuteMs) + minuteMs;
    return nowMs - endOfMinute < windowMs;
  });
}

function usageOf(calls: readonly Call[]): ToolUsage {
  const book = new UsageBook();
  const told = new Map<number, { calls: number; sum: number }>();
  for (const one of calls) {
    if (one.where === 'here') {
      const release = book.count('tool', sumsOf(one), { nowMs: one.atMs, monotonicMs: 0 });
      if (one.isGivenBack) {
        release();
        release();
      }
      continue;
    }
    if (one.isGivenBack) continue;
    const bucket = told.get(minuteOf(one.atMs)) ?? { calls: 0, sum: 0 };
    told.set(minuteOf(one.atMs), { calls: bucket.calls + 1, sum: bucket.sum + one.amount });
  }
  const elsewhere = new Buckets();
  for (const [minute, { calls: n, sum }] of told) {
    // Sets the bucket twice, because a call that is received twice must be counted once.
    elsewhere.set({ minute, calls: n, sums: { amount: sum } });
    elsewhere.set({ minute, calls: n, sums: { amount: sum } });
  }
  return new ToolUsage([elsewhere, book.of('tool')]);
}

const calls = fc.array(call, { maxLength: 60 });
const moment = fc.integer({ min: -hourMs, max: 90 * hourMs }).map((ms) => startMs + ms);

describe('windows of minute buckets', () => {
  it('give the same counts as a list of all calls, in any order and from any source', () => {
    fc.assert(
      fc.property(calls, moment, (all, nowMs) => {
        const counted = all.filter(({ isGivenBack }) => !isGivenBack);
        const usage = usageOf(all);
        const lastDay = naive(counted, nowMs, dayMs);
        expect(usage.callsIn1h(nowMs)).toBe(naive(counted, nowMs, hourMs).length);
        expect(usage.callsIn24h(nowMs)).toBe(lastDay.length);
        const sum = lastDay.reduce((total, { amount }) => total + amount, 0);
        expect(usage.sumIn24h('amount', nowMs)).toBe(sum);
        expect(usage.sumIn24h('other', nowMs)).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it('never count fewer calls than the exact window, and count a call for at most one additional minute', () => {
    fc.assert(
      fc.property(calls, moment, (all, nowMs) => {
        const counted = all.filter(({ isGivenBack }) => !isGivenBack);
        const within = (windowMs: number) =>
          counted.filter(({ atMs }) => nowMs - atMs < windowMs).length;
        const windowed = usageOf(all).callsIn1h(nowMs);
        expect(windowed).toBeGreaterThanOrEqual(within(hourMs));
        expect(windowed).toBeLessThanOrEqual(within(hourMs + minuteMs));
      }),
      { numRuns: 500 },
    );
  });

  it('change only at whole minutes, and are empty from the reset time that they reported', () => {
    fc.assert(
      fc.property(calls, moment, (all, nowMs) => {
        const usage = usageOf(all);
        const at = (ms: number) => [usage.callsIn1h(ms), usage.callsIn24h(ms)].join();
        expect(at(nowMs)).toBe(at(nowMs - (nowMs % minuteMs)));
        const { emptyFromMs } = usage;
        if (emptyFromMs < 0) return;
        expect(usage.callsIn24h(emptyFromMs)).toBe(0);
        expect(usage.callsIn24h(emptyFromMs - 1)).toBeGreaterThan(0);
      }),
      { numRuns: 300 },
    );
  });

  it('are never changed by reading them', () => {
    fc.assert(
      fc.property(calls, moment, (all, nowMs) => {
        const book = new UsageBook();
        const seen: Call[] = [];
        for (const one of all) {
          const release = book.count('tool', sumsOf(one), { nowMs: one.atMs, monotonicMs: 0 });
          if (one.isGivenBack) release();
          else seen.push(one);
          const usage = new ToolUsage([book.of('tool')]);
          expect(usage.callsIn1h(nowMs)).toBe(naive(seen, nowMs, hourMs).length);
          const sum = naive(seen, nowMs, dayMs).reduce((total, { amount }) => total + amount, 0);
          expect(usage.sumIn24h('amount', nowMs)).toBe(sum);
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe('a usage book', () => {
  it('keeps its counts when the clock is set forward and then back', () => {
    const book = new UsageBook();
    book.count('tool', {}, { nowMs: startMs, monotonicMs: 0 });
    book.count('other', {}, { nowMs: startMs + 9 * dayMs, monotonicMs: 60_000 });
    const usage = new ToolUsage([book.of('tool')]);
    expect(usage.callsIn1h(startMs)).toBe(1);
  });

  it('deletes, after a day, counts that are older than every window', () => {
    const book = new UsageBook();
    book.count('old', {}, { nowMs: startMs, monotonicMs: 0 });
    book.count('tool', {}, { nowMs: startMs, monotonicMs: 0 });
    const later = 26 * hourMs;
    book.count('tool', {}, { nowMs: startMs + later, monotonicMs: later });
    expect(book.of('old')).toBeUndefined();
    expect(book.of('tool')?.callsIn(10 * dayMs, startMs + later)).toBe(1);
  });
});

it('sums of decimals are exact decimals', () => {
  expect(asDecimal(0.1 + 0.2)).toBe(0.3);
  expect(asDecimal(19.99 * 3)).toBe(59.97);
  expect(asDecimal(123_456_789.01 + 0.02)).toBe(123_456_789.03);
});

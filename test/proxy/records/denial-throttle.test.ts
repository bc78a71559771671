import { expect, it } from 'vitest';
import { type DenialSummary, DenialThrottle } from '../../../proxy/records/denial-throttle.ts';
import { manualClock } from '../../support/base/manual-clock.ts';

function throttleOf({ perSecond = 10, burst = 3 } = {}) {
  const clock = manualClock();
  const summaries: DenialSummary[] = [];
  let failures = 0;
  const throttle = new DenialThrottle({
    perSecond,
    burst,
    clock,
    report: async (summary) => {
      if (failures-- > 0) throw new Error('the spool is full');
      summaries.push(summary);
    },
  });
  const failNext = (count: number) => {
    failures = count;
  };
  return { clock, throttle, summaries, failNext };
}

it('the denial throttle admits a burst, then denials at the configured rate', () => {
  const { clock, throttle } = throttleOf();
  const admitted = () => Array.from({ length: 100 }, () => throttle.admit('x')).filter(Boolean);
  expect(admitted()).toHaveLength(3);
  clock.advance(100);
  expect(admitted()).toHaveLength(1);
  clock.advance(60_000);
  expect(admitted()).toHaveLength(3);
  expect(throttle.total).toBe(293);
});

it('the denial throttle counts by reason the denials that it did not admit, and reports the counts once', async () => {
  const { throttle, summaries } = throttleOf({ burst: 1 });
  for (const reason of ['a', 'a', 'b', 'a', 'a']) throttle.admit(reason);
  await throttle.close();
  await throttle.close();
  expect(summaries).toHaveLength(1);
  expect(summaries[0]?.total).toBe(4);
  expect([...(summaries[0]?.counts ?? [])]).toEqual([
    ['a', 3],
    ['b', 1],
  ]);
});

it('the denial throttle keeps the counts of a summary that could not be recorded', async () => {
  const { throttle, summaries, failNext } = throttleOf({ burst: 1 });
  for (const reason of ['a', 'a', 'b']) throttle.admit(reason);
  failNext(1);
  await throttle.close();
  expect(summaries).toHaveLength(0);
  throttle.admit('b');
  await throttle.close();
  expect([...(summaries[0]?.counts ?? [])]).toEqual([
    ['a', 1],
    ['b', 2],
  ]);
});

it('the denial throttle counts all reasons after the first 64 together', async () => {
  const { throttle, summaries } = throttleOf({ burst: 1 });
  for (let reason = 0; reason <= 100; reason++) throttle.admit(`reason.${reason}`);
  await throttle.close();
  expect(summaries[0]?.counts.size).toBe(65);
  expect(summaries[0]?.counts.get('other')).toBe(36);
  expect(summaries[0]?.total).toBe(100);
});

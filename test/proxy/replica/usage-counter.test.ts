import { expect, it } from 'vitest';
import { UsageCounter } from '../../../proxy/replica/usage-counter.ts';
import { minuteOf } from '../../../shared/usage/buckets.ts';
import { manualClock } from '../../support/base/manual-clock.ts';

function stage() {
  const clock = manualClock(1_800_000_000_000);
  const counter = new UsageCounter({ clock, maxStalenessMs: 30_000 });
  const told = (position: number, after: number, calls: number) =>
    counter.takeOver(
      {
        position,
        after,
        buckets: [{ tool: 'pay', minute: minuteOf(clock.now()), calls, sums: {} }],
      },
      clock.monotonic(),
    );
  const calls = () => counter.of('pay')?.callsIn1h(clock.now());
  return { clock, counter, told, calls };
}

it('usage at other sidecars is unknown before the first response, and once the last response is too old', () => {
  const { clock, counter, told, calls } = stage();
  counter.count('pay', {});
  expect(calls()).toBeUndefined();
  told(1, 0, 3);
  expect(calls()).toBe(4);
  clock.advance(30_000);
  expect(calls()).toBe(4);
  clock.advance(1);
  expect(calls()).toBeUndefined();
  told(1, 1, 3);
  expect(calls()).toBe(4);
});

it('a response replaces the earlier totals, and the same response again changes nothing', () => {
  const { counter, told, calls } = stage();
  told(1, 0, 3);
  told(2, 1, 5);
  told(2, 1, 5);
  expect(calls()).toBe(5);
  expect(counter.position).toBe(2);
  counter.takeOver({ position: 1, after: 0, buckets: [] }, 0);
  expect(calls()).toBe(0);
});

it('usage at other sidecars is unknown while polling is stopped, but the sidecar’s own counts are kept', async () => {
  const { counter, told, calls } = stage();
  counter.count('pay', {});
  told(1, 0, 1);
  expect(counter.firstTry()).toBeUndefined();
  counter.rest();
  expect(calls()).toBeUndefined();
  const waiting = counter.firstTry();
  told(1, 1, 1);
  await waiting;
  expect(calls()).toBe(2);
});

import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import {
  measureWork,
  WorkMeter,
} from '../../../../control-plane/platform/scheduling/work-meter.ts';

/** A fake processor clock that advances when work is done. */
function processor() {
  let ms = 0;
  return {
    now: () => ms,
    work: (taken: number) => {
      ms += taken;
      return taken;
    },
  };
}

describe('the work meter', () => {
  it('measures synchronous work before the first await, and marked parts after the first await', async () => {
    const { now, work } = processor();
    const meter = new WorkMeter(now);
    await meter.measure(async () => {
      work(3);
      await turn();
      work(100);
      expect(measureWork(() => work(5))).toBe(5);
    });
    expect(meter.ms).toBe(8);
  });

  it('measures a nested part only once, and measures a part even if it throws', () => {
    const { now, work } = processor();
    const meter = new WorkMeter(now);
    expect(() =>
      meter.measure(() => {
        measureWork(() => work(4));
        work(2);
        throw new Error('refused');
      }),
    ).toThrow('refused');
    expect(meter.ms).toBe(6);
  });

  it('separates the processor time of concurrent requests', async () => {
    const { now, work } = processor();
    const serve = async (taken: number) => {
      const meter = new WorkMeter(now);
      await meter.measure(async () => {
        await turn();
        measureWork(() => work(taken));
      });
      return meter.ms;
    };
    expect(await Promise.all([serve(1), serve(20)])).toEqual([1, 20]);
  });

  it('measures the processor time of the current thread by default', () => {
    const meter = new WorkMeter();
    meter.measure(() => {
      const { user, system } = process.threadCpuUsage();
      for (let now = user + system; now < user + system + 2_000; ) {
        const usage = process.threadCpuUsage();
        now = usage.user + usage.system;
      }
    });
    expect(meter.ms).toBeGreaterThanOrEqual(2);
    expect(measureWork(() => 'outside a request')).toBe('outside a request');
  });
});

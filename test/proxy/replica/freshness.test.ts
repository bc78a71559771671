import { describe, expect, it } from 'vitest';
import { FreshnessGauge, type HeldVersion } from '../../../proxy/replica/freshness.ts';
import { type Heartbeat, tenantSections } from '../../../shared/sync/sections.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';

const held = new Map<string, HeldVersion>(
  tenantSections.map((name) => [name, { version: 1, digest: `sha256:${name}` }]),
);

function gaugeAt(clock: ManualClock) {
  const gauge = new FreshnessGauge({ clock, maxStalenessMs: 30_000 });
  let sequence = 0;
  return {
    gauge,
    beat(change: Partial<Heartbeat> = {}) {
      const sections = Object.fromEntries(held);
      sequence += 1;
      const beat = { tenant: 'acme', sequence, time: clock.now(), sections, ...change };
      const accepted = gauge.accept(beat);
      gauge.compare(held);
      return accepted;
    },
  };
}

describe('the freshness gauge', () => {
  it('is not fresh before the first heartbeat', () => {
    const { gauge } = gaugeAt(manualClock());
    expect(gauge.age()).toMatchObject({ fresh: false, reason: 'no heartbeat was seen' });
  });

  it('stays fresh until the staleness limit after a heartbeat that lists exactly the held sections', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    expect(gauge.age()).toEqual({ fresh: true, ageMs: 0 });
    clock.advance(30_000);
    expect(gauge.age()).toMatchObject({ fresh: true, ageMs: 30_000 });
    clock.advance(1);
    expect(gauge.age()).toMatchObject({ fresh: false, ageMs: 30_001 });
  });

  it.each([
    ['another version', { policies: { version: 2, digest: 'sha256:policies' } }],
    ['another digest', { policies: { version: 1, digest: 'sha256:other' } }],
    ['an unknown section', { quotas: { version: 1, digest: 'sha256:quotas' } }],
  ])('ignores a heartbeat that lists %s', (_what, other) => {
    const { gauge, beat } = gaugeAt(manualClock());
    beat({ sections: { ...Object.fromEntries(held), ...other } });
    expect(gauge.age().fresh).toBe(false);
  });

  it('ignores a heartbeat that omits a section', () => {
    const { gauge, beat } = gaugeAt(manualClock());
    const { kill_switches: _, ...sections } = Object.fromEntries(held);
    beat({ sections });
    expect(gauge.age().fresh).toBe(false);
  });

  it('during a mismatch, counts the age from the last matching heartbeat', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    const dropped = { ...Object.fromEntries(held), policies: { version: 2, digest: 'x' } };
    for (let second = 1; second <= 30; second++) {
      clock.advance(1_000);
      beat({ sections: dropped });
      expect(gauge.age()).toMatchObject({ fresh: true, ageMs: second * 1_000 });
    }
    clock.advance(1_000);
    beat({ sections: dropped });
    expect(gauge.age()).toMatchObject({
      fresh: false,
      reason: 'section policies is held in version 1, current is 2',
    });
  });

  it('counts the age from a heartbeat even if its section arrives later', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    const newer = new Map(held).set('policies', { version: 2, digest: 'new' });
    beat({ sections: Object.fromEntries(newer) });
    clock.advance(700);
    gauge.compare(newer);
    expect(gauge.age()).toEqual({ fresh: true, ageMs: 700 });
  });

  it('ignores a heartbeat with the same or an older sequence number', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    expect(beat({ sequence: 5 })).toBe(true);
    clock.advance(20_000);
    expect(beat({ sequence: 5 })).toBe(false);
    expect(beat({ sequence: 4 })).toBe(false);
    expect(gauge.age().ageMs).toBe(20_000);
  });

  it('ignores a first heartbeat whose time is far from the local wall clock', () => {
    for (const offMs of [-31_000, 31_000, -86_400_000]) {
      const clock = manualClock();
      const { gauge, beat } = gaugeAt(clock);
      beat({ time: clock.now() + offMs });
      expect(gauge.age().fresh).toBe(false);
    }
  });

  it('includes the transit time of the first heartbeat in the age', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat({ time: clock.now() - 10_000 });
    expect(gauge.age()).toMatchObject({ fresh: true, ageMs: 10_000 });
    clock.advance(20_001);
    expect(gauge.age().fresh).toBe(false);
  });

  it('does not become fresh from heartbeats that are delayed and replayed later', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    const recorded = Array.from({ length: 600 }, (_, second) => clock.now() + second * 1_000);
    clock.advance(120_000);
    for (const time of recorded.slice(0, 80)) beat({ time });
    expect(gauge.age().fresh).toBe(false);
    expect(gauge.age().ageMs).toBeGreaterThan(40_000);
  });

  it('does not change the age if the local wall clock is set forward or back', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    for (const stepMs of [3_600_000, -7_200_000]) {
      clock.setWall(clock.now() + stepMs);
      clock.advance(5_000);
      expect(gauge.age()).toMatchObject({ fresh: true });
    }
    expect(gauge.age().ageMs).toBe(10_000);
  });

  it('accepts new heartbeats after a step of the local wall clock', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    const publisherMs = clock.now();
    beat({ time: publisherMs });
    clock.setWall(clock.now() + 3_600_000);
    clock.advance(25_000);
    beat({ time: publisherMs + 25_000 });
    expect(gauge.age()).toEqual({ fresh: true, ageMs: 0 });
  });

  it('accepts new heartbeats after a step of the publisher’s clock', () => {
    for (const stepMs of [-20_000, 20_000]) {
      const clock = manualClock();
      const { gauge, beat } = gaugeAt(clock);
      beat();
      clock.advance(25_000);
      beat({ time: clock.now() + stepMs });
      expect(gauge.age().fresh).toBe(true);
      clock.advance(30_001);
      expect(gauge.age().fresh).toBe(false);
    }
  });

  it('returns the publisher’s time, whatever the setting of the local wall clock', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    let publisherMs = clock.now();
    expect(gauge.now()).toBe(publisherMs);
    beat({ time: publisherMs });
    for (const stepMs of [3_600_000, -7_200_000, 86_400_000]) {
      clock.setWall(clock.now() + stepMs);
      clock.advance(5_000);
      publisherMs += 5_000;
      expect(gauge.now()).toBe(publisherMs);
      beat({ time: publisherMs });
      expect(gauge.now()).toBe(publisherMs);
    }
  });

  it('returns time in whole milliseconds, as ids and tokens require', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    clock.advance(0.25);
    beat({ time: Math.floor(clock.now()) });
    clock.advance(0.5);
    expect(Number.isInteger(gauge.now())).toBe(true);
  });

  it('advances its time while heartbeats are delayed, and does not step back when they arrive', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    const startMs = clock.now();
    beat();
    clock.advance(20_000);
    beat({ time: startMs + 2_000 });
    expect(gauge.now()).toBe(startMs + 20_000);
  });

  it('follows a step of the publisher’s clock, whether forward or back', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    clock.advance(1_000);
    beat({ time: clock.now() + 3_600_000 });
    expect(gauge.now()).toBe(clock.now() + 3_600_000);
    clock.advance(1_000);
    beat({ time: clock.now() });
    expect(gauge.now()).toBe(clock.now());
  });

  it('stays fresh no longer after a heartbeat from the future than after any other heartbeat', () => {
    const clock = manualClock();
    const { gauge, beat } = gaugeAt(clock);
    beat();
    beat({ time: clock.now() + 86_400_000 });
    clock.advance(30_001);
    expect(gauge.age().fresh).toBe(false);
  });
});

import type { Response } from 'express';
import { describe, expect, it } from 'vitest';
import type { Caller } from '../../../../control-plane/platform/access/caller.ts';
import { createBudgets } from '../../../../control-plane/platform/http/budget.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { openMemoryBus } from '../../../../shared/bus/memory.ts';
import { manualClock } from '../../../support/base/manual-clock.ts';
import { probe } from '../../../support/control-plane/probe-routes.ts';

const limits = { requestsPerMinute: { tenant: 3, control: 2, sidecar: 2, address: 2 } };
const caller = (more: Partial<Caller> = {}): Caller => ({
  kind: 'key',
  tenantId: 't1',
  principal: 'p',
  role: 'owner',
  scope: 'tenant',
  permissions: new Set(),
  address: '127.0.0.1',
  ...more,
});
/** A response with only the method that budgets call. */
const answer = () => ({ setHeader: () => undefined }) as unknown as Response;

async function refusals(times: number, charge: () => Promise<void>): Promise<string[]> {
  const outcomes: string[] = [];
  for (let count = 0; count < times; count++) {
    outcomes.push(
      await charge().then(
        () => 'ok',
        (error) => error.code,
      ),
    );
  }
  return outcomes;
}

async function wide() {
  const clock = manualClock();
  const bus = openMemoryBus({ clock, log: silentLog });
  const requestsPerMinute = { tenant: 40, control: 40, sidecar: 40, address: 40 };
  const budgets = createBudgets({ bus, clock, log: silentLog }, { requestsPerMinute });
  return {
    bus,
    charge: () => budgets.charge(probe.search, caller(), answer()),
    chargeTime: (ms: number) => budgets.chargeTime(probe.search, caller(), ms),
  };
}

describe('request budgets', () => {
  it('are shared by all control planes on one bus', async () => {
    const clock = manualClock();
    const bus = openMemoryBus({ clock, log: silentLog });
    const replicas = [1, 2].map(() => createBudgets({ bus, clock, log: silentLog }, limits));
    const outcomes = [];
    for (let round = 0; round < 2; round++) {
      for (const budgets of replicas) {
        outcomes.push(
          ...(await refusals(1, () => budgets.charge(probe.search, caller(), answer()))),
        );
      }
    }
    expect(outcomes).toEqual(['ok', 'ok', 'ok', 'rate_limited']);
    await bus.close();
  });

  it('are counted by each control plane while the bus is unavailable', async () => {
    const clock = manualClock();
    const bus = openMemoryBus({ clock, log: silentLog });
    await bus.close();
    const budgets = createBudgets({ bus, clock, log: silentLog }, limits);
    const charge = () => budgets.charge(probe.search, caller(), answer());
    expect(await refusals(4, charge)).toEqual(['ok', 'ok', 'ok', 'rate_limited']);
    const other = () => budgets.charge(probe.search, caller({ tenantId: 't2' }), answer());
    expect(await refusals(1, other)).toEqual(['ok']);
    clock.advance(60_000);
    expect(await refusals(1, charge)).toEqual(['ok']);
  });

  it('refuse every new address if the bus is unavailable and the in-memory counters are full', async () => {
    const clock = manualClock();
    const bus = openMemoryBus({ clock, log: silentLog });
    await bus.close();
    const budgets = createBudgets({ bus, clock, log: silentLog }, limits);
    const from = (address: number) =>
      budgets.charge(
        probe.open,
        caller({ kind: 'anonymous', tenantId: '', address: String(address) }),
        answer(),
      );
    for (let address = 0; address < 10_000; address++) await from(address);
    expect(await refusals(1, () => from(10_001))).toEqual(['rate_limited']);
    clock.advance(60_000);
    expect(await refusals(1, () => from(10_001))).toEqual(['ok']);
  });

  it('charge an additional request for each slice of processor time after the first slice', async () => {
    const { charge, chargeTime } = await wide();
    expect(await refusals(1, charge)).toEqual(['ok']);
    await chargeTime(10);
    expect(await refusals(1, charge)).toEqual(['ok']);
    await chargeTime(10.1);
    await chargeTime(49);
    // The budget is 40. Two requests, one slice and four slices consumed seven, so thirty-three are left.
    expect(await refusals(34, charge)).toEqual([...Array(33).fill('ok'), 'rate_limited']);
  });

  it('are reduced by at most a tenth for the processor time of a single request', async () => {
    const { charge, chargeTime } = await wide();
    await chargeTime(60_000);
    expect(await refusals(37, charge)).toEqual([...Array(36).fill('ok'), 'rate_limited']);
  });

  it('are reduced by processor time even while the bus is unavailable', async () => {
    const { bus, charge, chargeTime } = await wide();
    await bus.close();
    expect(await refusals(1, charge)).toEqual(['ok']);
    await chargeTime(60_000);
    expect(await refusals(36, charge)).toEqual([...Array(35).fill('ok'), 'rate_limited']);
  });

  it('are separate for each sidecar', async () => {
    const clock = manualClock();
    const bus = openMemoryBus({ clock, log: silentLog });
    const budgets = createBudgets({ bus, clock, log: silentLog }, limits);
    const by = (sidecarId: string) => () =>
      budgets.charge(probe.sidecar, caller({ kind: 'sidecar', sidecarId }), answer());
    expect(await refusals(3, by('sc_1'))).toEqual(['ok', 'ok', 'rate_limited']);
    expect(await refusals(2, by('sc_2'))).toEqual(['ok', 'ok']);
    await bus.close();
  });
});

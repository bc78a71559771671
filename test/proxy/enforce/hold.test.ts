import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { awaitDecision } from '../../../proxy/enforce/hold.ts';
import { openReplica } from '../../../proxy/replica/open-replica.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';

let clock: ManualClock;
let bus: Bus;
let tenant: PublishedTenant;
let replica: Replica;

beforeEach(async () => {
  clock = manualClock();
  bus = await openBus({ redisUrl: undefined, log: silentLog, clock });
  tenant = new PublishedTenant(bus, clock);
  await tenant.publishAll();
  replica = await openReplica({
    bus,
    tenantId: tenant.tenantId,
    sidecarId,
    sectionKeys: tenant.sectionKeys,
    maxStalenessMs: 30_000,
    clock,
    log: silentLog,
  });
});
afterEach(async () => {
  await replica.close();
  await bus.close();
});

function hold(tool = 'pay.out') {
  const gone = new AbortController();
  const stopping = new AbortController();
  const identity = {
    sidecarId,
    tenantId: tenant.tenantId,
    agentId: '1',
    userId: 'ann',
    environment: 'prod',
  } as const;
  const outcome = awaitDecision(
    { approvalId: 7, tool, waitMs: 5_000, signal: gone.signal },
    { replica, identity, clock, stopping: stopping.signal },
  );
  return { outcome, gone, stopping };
}

describe('a held call', () => {
  it('is refused when a kill switch that blocks it is armed', async () => {
    const { outcome } = hold();
    const refused = expect(outcome).rejects.toMatchObject({ code: 'runtime.kill_switch' });
    await tenant.publish('kill_switches', {
      killSwitches: [{ id: 'ks_1', kind: 'block_tool', tool: 'pay.*', reason: 'stop' }],
    });
    await refused;
  });

  it('is refused when its sidecar is revoked', async () => {
    const { outcome } = hold();
    const refused = expect(outcome).rejects.toMatchObject({ code: 'sidecar.revoked' });
    await tenant.publish('revocations', { jtis: [], agentIds: [], sidecarIds: [sidecarId] });
    await refused;
  });

  it('is refused if a kill switch that blocks it is already armed', async () => {
    await tenant.publish('kill_switches', {
      killSwitches: [{ id: 'ks_1', kind: 'block_agent', agentId: '1', reason: 'stop' }],
    });
    await expect(hold().outcome).rejects.toMatchObject({ code: 'runtime.kill_switch' });
  });

  it('ends as pending when its agent disconnects or the sidecar shuts down', async () => {
    const one = hold();
    const other = hold();
    one.gone.abort();
    other.stopping.abort();
    expect(await Promise.all([one.outcome, other.outcome])).toEqual(['pending', 'pending']);
  });
});

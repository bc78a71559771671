import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openReplica } from '../../../proxy/replica/open-replica.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { policyHash } from '../../../shared/policy/language/hash.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';

/** A tenant's bus and a folder for snapshots, with the replicas that a test opens on them. */
export interface ReplicaStage {
  readonly clock: ManualClock;
  readonly bus: Bus;
  readonly tenant: PublishedTenant;
  readonly folder: string;
  open(change?: Partial<Parameters<typeof openReplica>[0]>): Promise<Replica>;
  /** Closes a replica before the end of the test, as a restart does. */
  close(replica: Replica): Promise<void>;
  end(): Promise<void>;
}

export async function replicaStage(): Promise<ReplicaStage> {
  const clock = manualClock();
  const bus = await openBus({ redisUrl: undefined, log: silentLog, clock });
  const tenant = new PublishedTenant(bus, clock);
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-replica-'));
  const opened: Replica[] = [];
  return {
    clock,
    bus,
    tenant,
    folder,
    async open(change = {}) {
      const replica = await openReplica({
        bus,
        tenantId: 'acme',
        sidecarId,
        sectionKeys: tenant.sectionKeys,
        maxStalenessMs: 30_000,
        clock,
        log: silentLog,
        ...change,
      });
      opened.push(replica);
      return replica;
    },
    async close(replica) {
      opened.splice(opened.indexOf(replica), 1);
      await replica.close();
    },
    async end() {
      await Promise.all(opened.splice(0).map((replica) => replica.close()));
      await bus.close();
      await rm(folder, { recursive: true });
    },
  };
}

const denyAll = {
  id: 'deny-all',
  version: 1,
  rules: [
    {
      name: 'never',
      decision: 'deny',
      reason: 'not.today',
      when: { all: [{ path: 'tool.name', operator: '!=', value: 'x' }] },
    },
  ],
} as const;
export const published = { id: 1, hash: policyHash(denyAll), definition: denyAll };

export const pending = {
  id: 7,
  actionDigest: 'sha256:a',
  status: 'pending',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
} as const;

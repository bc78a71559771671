import {
  type Checkpoint,
  type CheckpointServices,
  checkpointNow,
} from '../../ledger/tree/checkpoint.ts';

interface Runs {
  readonly running: Promise<Checkpoint>;
  /** Begins when the running one has ended: whoever comes meanwhile shares it. */
  next: Promise<Checkpoint> | undefined;
}

/**
 * Checkpoints of now for those who come at once: made side by side they would take each other's
 * turn, for each export seals an event of its own. What was sealed before one asked is covered.
 */
export function sharedCheckpoints(
  services: CheckpointServices,
): (tenantId: string) => Promise<Checkpoint> {
  const tenants = new Map<string, Runs>();
  const start = (tenantId: string): Promise<Checkpoint> => {
    const running = checkpointNow(services, tenantId).finally(() => {
      if (tenants.get(tenantId)?.next === undefined) tenants.delete(tenantId);
    });
    tenants.set(tenantId, { running, next: undefined });
    return running;
  };
  return (tenantId) => {
    const runs = tenants.get(tenantId);
    if (runs === undefined) return start(tenantId);
    runs.next ??= runs.running.then(
      () => start(tenantId),
      () => start(tenantId),
    );
    return runs.next;
  };
}

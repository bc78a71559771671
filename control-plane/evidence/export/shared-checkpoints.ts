import {
  type Checkpoint,
  type CheckpointServices,
  checkpointNow,
} from '../../ledger/tree/checkpoint.ts';

interface Runs {
  readonly running: Promise<Checkpoint>;
  /**
   * The checkpoint to create after `running`. Callers that arrive while `running` is pending share
   * it.
   */
  next: Promise<Checkpoint> | undefined;
}

/**
 * Creates checkpoints for exports. Concurrent exports share a checkpoint, because separate ones
 * would compete with each other. A checkpoint covers everything that was sealed before the caller
 * asked for it.
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

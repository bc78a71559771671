import type { DiskWatch } from '../../shared/base/disk-watch.ts';
import type { Identity } from '../base/identity.ts';
import type { Replica, Revocation } from '../replica/replica.ts';
import { explainRevocation, knownRevocation } from './revocation.ts';

export interface Readiness {
  readonly ready: boolean;
  /**
   * Set if an operator revoked this sidecar or disabled its agent, so that waiting does not help.
   */
  readonly code?: Revocation;
  /** Missing conditions, for the operator. */
  readonly reasons: readonly string[];
}

interface ReadinessParts {
  readonly replica: Pick<Replica, 'revocationOf' | 'hasLease' | 'freshness'>;
  readonly identity: Identity;
  /** Aborted when the sidecar ends. */
  readonly stopping: AbortSignal;
}

/**
 * Reports whether calls can be allowed at the moment. Checks for a revocation first, because a
 * revocation also removes the passports.
 */
export async function readiness(
  { replica, stopping, identity }: ReadinessParts,
  disk: Pick<DiskWatch, 'isWritable'>,
): Promise<Readiness> {
  if (stopping.aborted) return { ready: false, reasons: ['The sidecar is shutting down.'] };
  const code = knownRevocation(replica, identity.agentId);
  if (code !== undefined) {
    return { ready: false, code, reasons: [explainRevocation(code, identity)] };
  }
  if (!replica.hasLease) return { ready: false, reasons: ['No passports are at hand yet.'] };
  if (!(await disk.isWritable())) {
    const reason =
      'The data directory cannot be written, so calls are denied: make room on its disk.';
    return { ready: false, reasons: [reason] };
  }
  const { fresh, reason } = replica.freshness();
  return { ready: fresh, reasons: reason === undefined ? [] : [reason] };
}

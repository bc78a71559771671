import type { DeliveredApproval } from '../../shared/sync/sections.ts';

/** The approvals of this sidecar's agent: those that wait, and those decided not long ago. */
export class HeldApprovals {
  readonly #byId = new Map<number, DeliveredApproval>();
  readonly #byHash = new Map<string, DeliveredApproval>();
  readonly #byDigest = new Map<string, DeliveredApproval[]>();

  constructor(approvals: readonly DeliveredApproval[]) {
    for (const approval of approvals) {
      this.#byId.set(approval.id, approval);
      if (approval.eventHash !== undefined) this.#byHash.set(approval.eventHash, approval);
      const { actionDigest, effectiveDigest = actionDigest } = approval;
      for (const digest of new Set([actionDigest, effectiveDigest])) {
        this.#byDigest.set(digest, [...(this.#byDigest.get(digest) ?? []), approval]);
      }
    }
  }

  byId(id: number): DeliveredApproval | undefined {
    return this.#byId.get(id);
  }

  /** By the `event_hash` of its decision, which is a grant's `approval_hash`. */
  byHash(eventHash: string): DeliveredApproval | undefined {
    return this.#byHash.get(eventHash);
  }

  /**
   * What humans say about the action of this digest: a grant that can be used, else a request
   * that waits, else a denial that still stands. What was used or has run out says nothing.
   */
  forAction(digest: string, nowMs: number): DeliveredApproval | undefined {
    const candidates = (this.#byDigest.get(digest) ?? []).toSorted((a, b) => b.id - a.id);
    return (
      candidates.find((approval) => isUsable(approval, nowMs)) ??
      candidates.find(({ status, expiresAtMs }) => status === 'pending' && expiresAtMs > nowMs) ??
      candidates.find(({ status }) => status === 'denied')
    );
  }
}

function isUsable({ status, used, expiresAtMs, passport }: DeliveredApproval, nowMs: number) {
  const granted = status === 'approved' || status === 'modified';
  return granted && used !== true && passport !== undefined && expiresAtMs > nowMs;
}

import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import { type AskedDeciders, decidersSuffice } from '../../shared/vocabulary/deciders.ts';

/** The approvals of this sidecar's agent: pending ones, and those that were decided recently. */
export class HeldApprovals {
  readonly #byId = new Map<number, DeliveredApproval>();
  readonly #byHash = new Map<string, DeliveredApproval>();
  readonly #byDigest = new Map<string, DeliveredApproval[]>();
  readonly #standing: DeliveredApproval[] = [];

  constructor(approvals: readonly DeliveredApproval[]) {
    for (const approval of approvals) {
      this.#byId.set(approval.id, approval);
      if (approval.eventHash !== undefined) this.#byHash.set(approval.eventHash, approval);
      if (approval.grant !== undefined) this.#standing.push(approval);
      const { actionDigest, effectiveDigest = actionDigest } = approval;
      for (const digest of new Set([actionDigest, effectiveDigest])) {
        this.#byDigest.set(digest, [...(this.#byDigest.get(digest) ?? []), approval]);
      }
    }
  }

  byId(id: number): DeliveredApproval | undefined {
    return this.#byId.get(id);
  }

  /** Finds an approval by the `event_hash` of its decision, which is a grant's `approval_hash`. */
  byHash(eventHash: string): DeliveredApproval | undefined {
    return this.#byHash.get(eventHash);
  }

  /**
   * The human decision on the action with this digest: a usable grant, otherwise a pending request,
   * otherwise a denial if that was the last decision. Ignores used and expired grants, and grants
   * by deciders who do not satisfy `terms`. Standing grants: see `standingFor`.
   */
  forAction(digest: string, nowMs: number, terms?: AskedDeciders): DeliveredApproval | undefined {
    const candidates = (this.#byDigest.get(digest) ?? []).toSorted((a, b) => b.id - a.id);
    // Only one request per action is open at a time, so the newest request has the last decision.
    const lastWord = candidates.find(({ status }) => status !== 'pending' && status !== 'expired');
    return (
      candidates.find((one) => isUsable(one, nowMs) && isEnough(one, terms)) ??
      candidates.find(({ status, expiresAtMs }) => status === 'pending' && expiresAtMs > nowMs) ??
      (lastWord?.status === 'denied' ? lastWord : undefined)
    );
  }

  /**
   * The standing grants that may cover an action: grants for exactly this action first, then by
   * expiry.
   */
  standingFor(
    { userId, tool }: { readonly userId: string; readonly tool: string },
    digest: string,
    nowMs: number,
  ): readonly DeliveredApproval[] {
    if (this.#standing.length === 0) return none;
    return this.#standing
      .filter(({ grant, used, expiresAtMs, effectiveDigest }) => {
        if (used === true || expiresAtMs <= nowMs) return false;
        const isTheirs = grant?.userId === userId && grant.tool === tool;
        return isTheirs && (grant.scope === 'tool' || effectiveDigest === digest);
      })
      .toSorted((a, b) => reach(a) - reach(b) || a.expiresAtMs - b.expiresAtMs || a.id - b.id);
  }
}

const none: readonly never[] = [];

function reach({ grant }: DeliveredApproval): number {
  return grant?.scope === 'tool' ? 1 : 0;
}

function isEnough({ deciders }: DeliveredApproval, terms: AskedDeciders | undefined): boolean {
  return terms === undefined || decidersSuffice(deciders, terms);
}

function isUsable({ status, used, expiresAtMs, passport }: DeliveredApproval, nowMs: number) {
  const granted = status === 'approved' || status === 'modified';
  return granted && used !== true && passport !== undefined && expiresAtMs > nowMs;
}

import { claimMarginMs } from '../../shared/passport/single-use-claim.ts';

/**
 * The passports that agents presented and used here, until no clock can hold them valid: whoever
 * can delete claims on the bus gains no second use at the sidecar that saw the first.
 */
export class UsedPassports {
  readonly #goneAtMs = new Map<string, number>();
  #sweepAt = 1_000;

  /** True when it was not there before. */
  add(
    jti: string,
    { expiresAtMs, nowMs }: { readonly expiresAtMs: number; readonly nowMs: number },
  ): boolean {
    if (this.#goneAtMs.has(jti)) return false;
    this.#goneAtMs.set(jti, expiresAtMs + claimMarginMs);
    if (this.#goneAtMs.size >= this.#sweepAt) this.#sweep(nowMs);
    return true;
  }

  /** Each time twice as many are kept as the last sweep left: the cost per use stays flat. */
  #sweep(nowMs: number): void {
    for (const [jti, goneAtMs] of this.#goneAtMs) {
      if (goneAtMs <= nowMs) this.#goneAtMs.delete(jti);
    }
    this.#sweepAt = Math.max(1_000, this.#goneAtMs.size * 2);
  }
}

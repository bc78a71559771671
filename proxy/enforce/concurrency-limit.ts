import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** Limits concurrent operations; at the limit, `acquire` throws the given code. */
export class ConcurrencyLimit {
  readonly #max: number;
  readonly #code: ErrorCode;
  #inUse = 0;

  constructor(max: number, code: ErrorCode) {
    this.#max = max;
    this.#code = code;
  }

  get inUse(): number {
    return this.#inUse;
  }

  /** Returns a function that releases the slot; calling it again has no effect. */
  acquire(): () => void {
    if (this.#inUse >= this.#max) throw new GatewayError(this.#code);
    this.#inUse += 1;
    let isHeld = true;
    return () => {
      if (isHeld) this.#inUse -= 1;
      isHeld = false;
    };
  }
}

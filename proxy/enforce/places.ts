import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** A bounded number of places; who finds none is refused with the code given. */
export class Places {
  readonly #max: number;
  readonly #code: ErrorCode;
  #taken = 0;

  constructor(max: number, code: ErrorCode) {
    this.#max = max;
    this.#code = code;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Returns how to give the place back, which may be called more than once. */
  take(): () => void {
    if (this.#taken >= this.#max) throw new GatewayError(this.#code);
    this.#taken += 1;
    let isHeld = true;
    return () => {
      if (isHeld) this.#taken -= 1;
      isHeld = false;
    };
  }
}

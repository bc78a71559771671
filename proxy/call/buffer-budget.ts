import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** Limits the bytes of request bodies in memory, for all calls together. */
export class BufferBudget {
  readonly #bytesMax: number;
  #used = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * Returns a function that charges bytes to one call and throws `proxy.buffers_full` if the budget
   * is exhausted. The bytes are released when the response is sent or its connection is closed.
   */
  open(res: Pick<ServerResponse, 'once' | 'destroyed'>): (bytes: number) => void {
    let held = 0;
    let isOver = res.destroyed;
    res.once('close', () => {
      isOver = true;
      this.#used -= held;
    });
    return (bytes) => {
      if (isOver) return;
      if (this.#used + bytes > this.#bytesMax) throw new GatewayError('proxy.buffers_full');
      this.#used += bytes;
      held += bytes;
    };
  }
}

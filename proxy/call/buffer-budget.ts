import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/** How many bytes of bodies the sidecar keeps in memory at once, for all calls together. */
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
   * Returns a function that charges bytes to one call, or throws `proxy.buffers_full`. The bytes
   * are released when the call's answer is out or its connection is closed, however it ends.
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

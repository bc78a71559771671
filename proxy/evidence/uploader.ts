import { setTimeout as delay } from 'node:timers/promises';
import { signJws } from '../../shared/crypto/jws.ts';
import type { SigningKey } from '../../shared/crypto/signing-key.ts';
import { toGatewayError } from '../../shared/errors.ts';
import {
  type SpoolHead,
  type SpoolPosition,
  spoolHeadType,
} from '../../shared/evidence/spool-head.ts';
import type { Log } from '../../shared/log.ts';
import type { PendingRecords, Spool } from './spool.ts';

const recordsMax = 1000;
const bytesMax = 3 * 1024 ** 2;
const backoffMs = { first: 200, most: 10_000 };

export interface UploaderDeps {
  readonly spool: Spool;
  readonly sidecarId: string;
  readonly key: SigningKey;
  /** Sends one batch; resolves with the position up to which everything is sealed. */
  readonly upload: (segment: string, lines: readonly string[]) => Promise<SpoolPosition>;
  readonly log: Log;
}

/**
 * Carries the spool to the control plane, in order and at least once: a record is let go only
 * after the control plane has sealed it. Outages are waited out; nothing is skipped.
 */
export class Uploader {
  readonly #deps: UploaderDeps;
  readonly #stop = new AbortController();
  #wake: () => void = () => {};
  readonly #done: Promise<void>;

  constructor(deps: UploaderDeps) {
    this.#deps = deps;
    deps.spool.onWritten(() => this.#wake());
    this.#done = this.#run();
  }

  /** Tries to send what is left, then ends. What cannot be sent now stays in the spool. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    await this.#done;
  }

  async #run(): Promise<void> {
    let waitMs = backoffMs.first;
    while (!this.#stop.signal.aborted || this.#deps.spool.depth > 0) {
      if (this.#deps.spool.depth === 0) {
        await this.#written();
        continue;
      }
      try {
        await this.#sendBatch();
        waitMs = backoffMs.first;
      } catch (error) {
        this.#deps.log.warn(
          { err: error, depth: this.#deps.spool.depth },
          'evidence could not be uploaded yet',
        );
        if (this.#stop.signal.aborted) return;
        await delay(waitMs, undefined, { signal: this.#stop.signal }).catch(() => {});
        waitMs = Math.min(waitMs * 2, backoffMs.most);
      }
    }
  }

  #written(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#deps.spool.depth > 0 || this.#stop.signal.aborted) resolve();
    });
  }

  async #sendBatch(): Promise<void> {
    const { spool, upload } = this.#deps;
    const pending = spool.pending(recordsMax, bytesMax);
    const acked = await upload(this.#sign(pending), pending.lines);
    if (acked.record > pending.last.record) {
      throw toGatewayError(
        new Error(`the control plane acknowledged record ${acked.record}, never sent`),
      );
    }
    spool.acknowledge(acked.record === pending.last.record ? pending.last : acked);
  }

  #sign({ after, last }: PendingRecords): string {
    const head: SpoolHead = { sidecar: this.#deps.sidecarId, after, last };
    return signJws(head, spoolHeadType, this.#deps.key);
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../shared/base/log.ts';
import { signJws } from '../../shared/crypto/jws.ts';
import type { SigningKey } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import {
  type SpoolHead,
  type SpoolPosition,
  spoolHeadType,
  spoolLinkHash,
} from '../../shared/ledger/spool-head.ts';
import type { Acknowledged } from '../control-plane/client.ts';
import type { PendingRecords } from './read-pending.ts';
import type { Spool } from './spool.ts';

const recordsMax = 1000;
const bytesMax = 3 * 1024 ** 2;
/** Time limit for the remaining uploads at shutdown. */
const closeMs = 5_000;
/**
 * How long records are collected, because an upload is expensive and an additional record cheap.
 */
const gatherMs = 100;
const backoffMs = { first: 200, most: 10_000 };

export interface UploaderDeps {
  readonly spool: Spool;
  readonly sidecarId: string;
  readonly key: SigningKey;
  /** Sends one batch of lines. */
  readonly upload: (
    segment: string,
    lines: readonly Buffer[],
    ledger?: LedgerAcknowledgement,
  ) => Promise<Acknowledged>;
  readonly log: Log;
}

/**
 * Uploads the spool to the control plane, in order and at least once: a record is released only
 * after the control plane has sealed it. During an outage, uploads are retried until they succeed.
 */
export class Uploader {
  readonly #deps: UploaderDeps;
  readonly #stop = new AbortController();
  #closed = false;
  #wake: () => void = () => {};
  #failures = 0;
  #oldestUnsent: string | undefined;
  readonly #done: Promise<void>;

  constructor(deps: UploaderDeps) {
    this.#deps = deps;
    deps.spool.onWritten(() => this.#wake());
    this.#done = this.#run();
  }

  /** Number of failed uploads. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * The oldest record that is being uploaded or could not be uploaded yet; undefined if there is
   * none.
   */
  get oldestUnsent(): string | undefined {
    return this.#oldestUnsent;
  }

  /**
   * Tries to upload the remaining records, then stops. Records that cannot be sent in time stay in
   * the spool.
   */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    const patience = new AbortController();
    const { signal } = patience;
    await Promise.race([this.#done, delay(closeMs, undefined, { signal }).catch(() => {})]);
    patience.abort();
    this.#closed = true;
  }

  async #run(): Promise<void> {
    let waitMs = backoffMs.first;
    while (!this.#closed && (!this.#stop.signal.aborted || this.#deps.spool.depth > 0)) {
      if (this.#deps.spool.depth === 0) {
        await this.#written();
        await this.#pause(gatherMs);
        continue;
      }
      try {
        await this.#sendBatch();
        waitMs = backoffMs.first;
      } catch (error) {
        this.#failures += 1;
        this.#deps.log.warn(
          { err: error, depth: this.#deps.spool.depth },
          'evidence could not be uploaded yet',
        );
        if (this.#stop.signal.aborted) return;
        await this.#pause(waitMs);
        waitMs = Math.min(waitMs * 2, backoffMs.most);
      }
    }
  }

  /** Waits; returns early at shutdown. */
  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  #written(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#deps.spool.depth > 0 || this.#stop.signal.aborted) resolve();
    });
  }

  async #sendBatch(): Promise<void> {
    const { spool, upload, sidecarId } = this.#deps;
    const pending = spool.pending(recordsMax, bytesMax);
    this.#oldestUnsent = pending.lines[0]?.toString();
    // Without lines, only damaged records are left: they are skipped, and the missing numbers show
    // the gap.
    const answer: Acknowledged =
      pending.lines.length === 0
        ? { acked: pending.last }
        : await upload(this.#sign(pending), pending.lines, spool.ledgerShownTo(sidecarId));
    const reached = positionIn(pending, answer.acked);
    if (reached.record <= spool.acked.record) {
      throw unexpected(`the control plane acknowledged nothing after record ${reached.record}`);
    }
    spool.acknowledge(reached, answer.ledger && { ...answer.ledger, sidecar: sidecarId });
    this.#oldestUnsent = undefined;
  }

  #sign({ after, last }: PendingRecords): string {
    const head: SpoolHead = { sidecar: this.#deps.sidecarId, after, last };
    return signJws(head, spoolHeadType, this.#deps.key);
  }
}

/** The acknowledged position, with its hash computed from the lines that were sent. */
function positionIn({ after, lines, last }: PendingRecords, acked: SpoolPosition): SpoolPosition {
  if (acked.record === last.record) return last;
  if (acked.record > last.record) {
    throw unexpected(`the control plane acknowledged record ${acked.record}, never sent`);
  }
  const sealed = lines.slice(0, Math.max(acked.record - after.record, 0));
  const hash = sealed.reduce(
    (before, line) => spoolLinkHash(before, line.toString('utf8', 0, line.length - 1)),
    after.hash,
  );
  return { record: after.record + sealed.length, hash };
}

function unexpected(message: string): GatewayError {
  return new GatewayError('internal.unexpected', { cause: new Error(message) });
}

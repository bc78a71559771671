import fs from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../shared/base/json.ts';
import type { Log } from '../../shared/base/log.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import { type Block, type Line, writeBlock } from './block.ts';
import { type KeptAcknowledgement, storePosition } from './position-file.ts';
import { type Cursor, type PendingRecords, readPending } from './read-pending.ts';
import { type Recovered, recover } from './recover.ts';
import { segmentName, segmentsIn } from './segment.ts';
import { datasync, openSegment, truncate, writeWhole } from './segment-file.ts';
import { Tail } from './tail.ts';

/** The content of one line of the spool. */
export interface SpoolRecord {
  readonly event: EvidenceEvent;
  /** Salt of the digest of the arguments, base64; stored encrypted and apart from the event. */
  readonly salt?: string | undefined;
  /** The redacted arguments, if the tenant keeps them; also stored apart from the event. */
  readonly args?: JsonObject | undefined;
}

export interface SpoolOptions {
  readonly folder: string;
  readonly log: Log;
  /**
   * True if records must survive a loss of power. A record then counts as written only when the
   * disk has stored it.
   */
  readonly fsync: boolean;
  /** Maximum number of bytes that wait for upload; beyond this number, records are refused. */
  readonly bytesMax?: number;
  readonly segmentBytesMax?: number;
  /** How much of the newest records is kept in memory for the next upload. */
  readonly tailBytesMax?: number;
}

interface Waiting extends Line {
  resolve(): void;
  reject(error: GatewayError): void;
}

/** Well below the ledger's limit for one event. */
const recordBytesMax = 512 * 1024;

/**
 * The sidecar's evidence on disk: an append-only list of records in numbered segments, each record
 * hash-linked to the one before. `append` resolves when the record would survive the death of the
 * process (with `fsync`, of the machine); only then is the call sent. Records that arrive together
 * are written together.
 */
export class Spool {
  readonly #options: Required<SpoolOptions>;
  #fd: number;
  #segment: { name: string; bytes: number };
  #written: SpoolPosition;
  /** The last record that is written and durable; only records up to it are uploaded. */
  #kept: SpoolPosition;
  #acked: SpoolPosition;
  #ledger: KeptAcknowledgement | undefined;
  #storedBytes: number;
  /** The start of the first unacknowledged record. */
  #cursor: Cursor = { segment: '', record: 0, offset: 0 };
  /** The end of the last read. */
  #next = this.#cursor;
  /** Segments with damaged records; their files are kept. */
  readonly #damaged = new Set<string>();
  readonly #tail: Tail;
  #waiting: Waiting[] = [];
  #flushing = false;
  #closed = false;
  #onWritten: () => void = () => {};

  private constructor(options: Required<SpoolOptions>, recovered: Recovered) {
    this.#options = options;
    this.#tail = new Tail(options.tailBytesMax);
    this.#written = recovered.written;
    this.#kept = recovered.written;
    this.#acked = recovered.acked;
    this.#ledger = recovered.ledger;
    this.#storedBytes = recovered.storedBytes;
    this.#segment = { name: segmentName(recovered.written), bytes: 0 };
    this.#fd = openSegment(options, this.#segment.name);
  }

  /**
   * Opens the spool. Drops an incomplete last line, which a process leaves if it dies while
   * writing.
   */
  static open(options: SpoolOptions): Spool {
    fs.mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    const full = {
      bytesMax: 1024 ** 3,
      segmentBytesMax: 8 * 1024 ** 2,
      tailBytesMax: 4 * 1024 ** 2,
      ...options,
    };
    return new Spool(full, recover(full));
  }

  /** Number of records written and not yet acknowledged. */
  get depth(): number {
    return this.#kept.record - this.#acked.record;
  }

  get acked(): SpoolPosition {
    return this.#acked;
  }

  get written(): SpoolPosition {
    return this.#kept;
  }

  /** The ledger's last acknowledgement to this sidecar, if known. */
  ledgerShownTo(sidecarId: string): LedgerAcknowledgement | undefined {
    if (this.#ledger?.sidecar !== sidecarId) return undefined;
    const { sidecar: _, ...ledger } = this.#ledger;
    return ledger;
  }

  get folder(): string {
    return this.#options.folder;
  }

  /** Sets the function to call after records were written, so that they can be uploaded. */
  onWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Writes a record, or rejects with `evidence.seal_failed` and stores no part of the record. */
  append(record: SpoolRecord): Promise<void> {
    const text = canonicalJson(record);
    const bytes = Buffer.byteLength(text);
    if (this.#closed) return Promise.reject(sealFailed('the spool is closed'));
    if (bytes > recordBytesMax) return Promise.reject(sealFailed('the record is too large'));
    if (this.#storedBytes + bytes > this.#options.bytesMax) {
      return Promise.reject(sealFailed('the spool is full'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, bytes, resolve, reject });
      if (this.#flushing) return;
      this.#flushing = true;
      setImmediate(() => void this.#flush());
    });
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      let undo = () => {};
      try {
        const written = this.#write(batch);
        undo = written.undo;
        if (this.#options.fsync) await datasync(this.#fd);
        this.#kept = this.#written;
        this.#tail.add(written.block);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        undo();
        this.#options.log.error({ err: cause }, 'the evidence spool could not be written');
        for (const { reject } of batch) reject(sealFailed('the spool cannot be written', cause));
      }
    }
    this.#flushing = false;
    this.#onWritten();
  }

  /** Writes a batch; `undo` removes it again if the disk fails to store it. */
  #write(batch: readonly Waiting[]): { readonly block: Block; readonly undo: () => void } {
    // Writing to a removed file would succeed, but no process could read the file.
    const { nlink, size } = fs.fstatSync(this.#fd);
    const isChanged = nlink > 0 && size !== this.#segment.bytes;
    if (nlink === 0) this.#renew();
    if (isChanged) this.#cutOff(size);
    if (isChanged || this.#segment.bytes >= this.#options.segmentBytesMax) this.#rotate();
    const before = this.#written;
    const position = this.#segment.bytes;
    const { block, last } = writeBlock(before, batch);
    const { length } = block.bytes;
    writeWhole(this.#fd, block.bytes, position);
    this.#segment.bytes += length;
    this.#storedBytes += length;
    this.#written = last;
    const undo = () => {
      this.#written = before;
      this.#segment.bytes = position;
      this.#storedBytes -= length;
      // Truncates now, because a later truncation would also remove the next write.
      truncate(this.#fd, position);
    };
    return { block, undo };
  }

  /**
   * Continues in a new segment after the file was removed. The removed records are lost; the count
   * continues, so that the gap is visible.
   */
  #renew(): void {
    const { name } = this.#segment;
    this.#options.log.error({ segment: name }, 'the evidence spool was removed, and begins anew');
    fs.mkdirSync(this.#options.folder, { recursive: true, mode: 0o700 });
    this.#rotate();
    this.#storedBytes = segmentsIn(this.#options.folder).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Removes bytes that another program appended, so that they do not precede the next record. */
  #cutOff(size: number): void {
    const { name, bytes } = this.#segment;
    this.#options.log.error({ segment: name }, 'the evidence spool is not as it was left');
    if (size > bytes) fs.ftruncateSync(this.#fd, bytes);
  }

  #rotate(): void {
    const name = segmentName(this.#written);
    const fd = openSegment(this.#options, name);
    fs.closeSync(this.#fd);
    this.#fd = fd;
    this.#segment = { name, bytes: 0 };
  }

  /**
   * Up to `recordsMax` records after the last acknowledged one, as their exact lines, without
   * damaged records. If all are damaged, `last` is the position after them.
   */
  pending(recordsMax: number, bytesMax: number): PendingRecords {
    const recent = this.#tail.after(this.#acked, { recordsMax, bytesMax });
    if (recent !== undefined) return recent;
    const { pending, cursor } = readPending({
      folder: this.#options.folder,
      acked: this.#acked,
      written: this.#kept,
      cursor: this.#cursor,
      recordsMax,
      bytesMax: Math.max(bytesMax, 4 * recordBytesMax),
      onDamaged: (segment, record) => {
        this.#damaged.add(segment);
        this.#options.log.error({ segment, record }, 'a record of the evidence spool is damaged');
      },
    });
    this.#next = cursor;
    return pending;
  }

  /** Called when all records up to a position are sealed; removes older segments. */
  acknowledge(position: SpoolPosition, ledger?: KeptAcknowledgement): void {
    if (this.#closed || position.record <= this.#acked.record) return;
    this.#acked = position;
    this.#ledger = ledger ?? this.#ledger;
    if (this.#next.record === position.record + 1) this.#cursor = this.#next;
    // Segments are removed first, because a full disk needs the space; an unstored position only
    // costs a second upload.
    try {
      const isDone = this.depth === 0 && this.#isWorthRemoving && !this.#flushing;
      this.#removeUpTo(position);
      if (isDone) {
        this.#rotate();
        this.#removeUpTo(position);
      }
      storePosition(this.#options.folder, position, this.#ledger);
    } catch (err) {
      this.#options.log.error({ err }, 'the acknowledged position could not be stored');
    }
  }

  /**
   * False for a short, undamaged segment. Such a segment stays in use even if all its records are
   * acknowledged, because creating a file costs milliseconds.
   */
  get #isWorthRemoving(): boolean {
    const { bytesMax, segmentBytesMax } = this.#options;
    const { name, bytes } = this.#segment;
    return this.#damaged.has(name) || bytes > Math.min(segmentBytesMax, bytesMax) / 8;
  }

  #removeUpTo(position: SpoolPosition): void {
    const { folder } = this.#options;
    const segments = segmentsIn(folder);
    segments.forEach((segment, index) => {
      const next = segments[index + 1];
      if (segment.name === this.#segment.name || next === undefined) return;
      if (next.after.record > position.record) return;
      const path = join(folder, segment.name);
      if (this.#damaged.delete(segment.name))
        fs.renameSync(path, join(folder, `damaged-${segment.name}`));
      else fs.rmSync(path);
      this.#storedBytes -= segment.bytes;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    while (this.#flushing) await new Promise((resolve) => setImmediate(resolve));
    fs.closeSync(this.#fd);
  }
}

function sealFailed(message: string, cause?: unknown): GatewayError {
  return new GatewayError('evidence.seal_failed', {
    message: `The decision could not be recorded: ${message}.`,
    cause,
  });
}

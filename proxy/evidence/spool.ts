import fs from 'node:fs';
import { join } from 'node:path';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors.ts';
import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import { type SpoolPosition, spoolLinkHash } from '../../shared/evidence/spool-head.ts';
import type { Log } from '../../shared/log.ts';
import { readSegment, segmentName, segmentsIn } from './segment.ts';

/** What one line of the spool holds. */
export interface SpoolRecord {
  readonly event: EvidenceEvent;
  /** What the digest of the arguments was keyed with, base64; stored apart from the event, encrypted. */
  readonly salt?: string | undefined;
}

export interface SpoolOptions {
  readonly folder: string;
  readonly log: Log;
  /** Also survive the loss of power: records count as written once the disk has them. */
  readonly fsync: boolean;
  /** Beyond this many bytes not yet uploaded, nothing more is accepted. */
  readonly bytesMax?: number;
  readonly segmentBytesMax?: number;
}

export interface PendingRecords {
  /** The position that the first line follows. */
  readonly after: SpoolPosition;
  readonly lines: readonly string[];
  readonly last: SpoolPosition;
}

interface Waiting {
  readonly line: string;
  resolve(): void;
  reject(error: GatewayError): void;
}

const recordBytesMax = 1024 ** 2;

const start: SpoolPosition = { record: 0, hash: '0'.repeat(64) };

/**
 * The sidecar's evidence on disk: an append-only list of records in numbered segments, each
 * record hash-linked to the one before. `append` resolves when the record would survive the
 * death of the process (with `fsync`, of the machine); a call leaves only after that. Records
 * that arrive together are written together.
 */
export class Spool {
  readonly #options: Required<SpoolOptions>;
  #fd: number;
  #segment: { name: string; bytes: number };
  #written: SpoolPosition;
  #acked: SpoolPosition;
  #storedBytes: number;
  /** Where the first record not acknowledged begins, and where reading stopped last. */
  #cursor = { segment: '', record: 0, offset: 0 };
  #next = this.#cursor;
  #waiting: Waiting[] = [];
  #flushing = false;
  #closed = false;
  #onWritten: () => void = () => {};

  private constructor(options: Required<SpoolOptions>, recovered: Recovered) {
    this.#options = options;
    this.#written = recovered.written;
    this.#acked = recovered.acked;
    this.#storedBytes = recovered.storedBytes;
    this.#segment = { name: segmentName(recovered.written.record + 1), bytes: 0 };
    this.#fd = openSegment(options.folder, this.#segment.name);
  }

  /** Opens the spool, dropping a line that was torn when the process died. */
  static open(options: SpoolOptions): Spool {
    fs.mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    const full = { bytesMax: 1024 ** 3, segmentBytesMax: 8 * 1024 ** 2, ...options };
    return new Spool(full, recover(full));
  }

  /** Number of records written and not yet acknowledged. */
  get depth(): number {
    return this.#written.record - this.#acked.record;
  }

  get acked(): SpoolPosition {
    return this.#acked;
  }

  get written(): SpoolPosition {
    return this.#written;
  }

  get folder(): string {
    return this.#options.folder;
  }

  /** Called after records were written, so that they can be uploaded. */
  onWritten(listener: () => void): void {
    this.#onWritten = listener;
  }

  /** Writes a record, or rejects with `evidence.seal_failed` and keeps nothing of it. */
  append(record: SpoolRecord): Promise<void> {
    const line = canonicalJson(record);
    const bytes = Buffer.byteLength(line);
    if (this.#closed) return Promise.reject(sealFailed('the spool is closed'));
    if (bytes > recordBytesMax) return Promise.reject(sealFailed('the record is too large'));
    if (this.#storedBytes + bytes > this.#options.bytesMax) {
      return Promise.reject(sealFailed('the spool is full'));
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      if (this.#flushing) return;
      this.#flushing = true;
      setImmediate(() => void this.#flush());
    });
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        this.#write(batch);
        if (this.#options.fsync) await datasync(this.#fd);
        for (const { resolve } of batch) resolve();
      } catch (cause) {
        this.#options.log.error({ err: cause }, 'the evidence spool could not be written');
        for (const { reject } of batch) reject(sealFailed('the spool cannot be written', cause));
      }
    }
    this.#flushing = false;
    this.#onWritten();
  }

  #write(batch: readonly Waiting[]): void {
    // A file that was removed under us can still be written, and nobody would ever read it.
    if (fs.fstatSync(this.#fd).nlink === 0) throw new Error('the segment is gone from the folder');
    if (this.#segment.bytes >= this.#options.segmentBytesMax) this.#rotate();
    let { record, hash } = this.#written;
    let text = '';
    for (const { line } of batch) {
      record += 1;
      hash = spoolLinkHash(hash, line);
      text += `${hash} ${line}\n`;
    }
    const bytes = Buffer.from(text);
    writeWhole(this.#fd, bytes, this.#segment.bytes);
    this.#segment.bytes += bytes.length;
    this.#storedBytes += bytes.length;
    this.#written = { record, hash };
  }

  #rotate(): void {
    const name = segmentName(this.#written.record + 1);
    const fd = openSegment(this.#options.folder, name);
    fs.closeSync(this.#fd);
    this.#fd = fd;
    this.#segment = { name, bytes: 0 };
  }

  /** Up to `recordsMax` records after the last acknowledged one, as their exact lines. */
  pending(recordsMax: number, bytesMax: number): PendingRecords {
    const lines: string[] = [];
    let last = this.#acked;
    let left = bytesMax;
    for (const segment of segmentsIn(this.#options.folder)) {
      if (segment.name < this.#cursor.segment) continue;
      const from = segment.name === this.#cursor.segment ? this.#cursor : undefined;
      for (const entry of readSegment(this.#options.folder, segment, from, left)) {
        if (entry.record <= this.#acked.record) continue;
        if (entry.record > this.#written.record || lines.length >= recordsMax) break;
        lines.push(entry.line);
        left -= entry.line.length;
        last = { record: entry.record, hash: entry.hash };
        this.#next = { segment: segment.name, record: entry.record + 1, offset: entry.endsAt };
      }
      if (lines.length >= recordsMax || left <= 0) break;
    }
    return { after: this.#acked, lines, last };
  }

  /** The control plane has sealed everything up to here: older segments go away. */
  acknowledge(position: SpoolPosition): void {
    if (position.record <= this.#acked.record) return;
    storePosition(this.#options.folder, position);
    this.#acked = position;
    if (this.#next.record === position.record + 1) this.#cursor = this.#next;
    if (this.depth === 0 && this.#segment.bytes > 0 && !this.#flushing) this.#rotate();
    const segments = segmentsIn(this.#options.folder);
    segments.forEach((segment, index) => {
      const next = segments[index + 1];
      if (segment.name === this.#segment.name || next === undefined) return;
      if (next.firstRecord > position.record + 1) return;
      fs.rmSync(join(this.#options.folder, segment.name));
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

function openSegment(folder: string, name: string): number {
  return fs.openSync(join(folder, name), fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
}

/** Writes all bytes at `position`; after a failure the file is as long as before. */
function writeWhole(fd: number, bytes: Buffer, position: number): void {
  let done = 0;
  try {
    while (done < bytes.length)
      done += fs.writeSync(fd, bytes, done, bytes.length - done, position + done);
  } catch (error) {
    fs.ftruncateSync(fd, position);
    throw error;
  }
}

function datasync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

interface Recovered {
  readonly written: SpoolPosition;
  readonly acked: SpoolPosition;
  readonly storedBytes: number;
}

/** Reads what a former process left: the last whole record ends the list. */
function recover({ folder, log }: Required<SpoolOptions>): Recovered {
  const acked = loadPosition(folder);
  let written = acked;
  let storedBytes = 0;
  for (const segment of segmentsIn(folder)) {
    let wholeBytes = 0;
    for (const entry of readSegment(folder, segment)) {
      if (linkBroken(entry, written)) {
        log.error(
          { segment: segment.name, record: entry.record },
          'the evidence spool was tampered with',
        );
      }
      if (entry.record > written.record) written = { record: entry.record, hash: entry.hash };
      wholeBytes = entry.endsAt;
    }
    const path = join(folder, segment.name);
    if (wholeBytes === 0) fs.rmSync(path);
    else if (wholeBytes < segment.bytes) fs.truncateSync(path, wholeBytes);
    storedBytes += wholeBytes;
  }
  return { written, acked, storedBytes };
}

function linkBroken(
  entry: { readonly record: number; readonly hash: string; readonly line: string },
  before: SpoolPosition,
): boolean {
  return (
    entry.record === before.record + 1 && spoolLinkHash(before.hash, entry.line) !== entry.hash
  );
}

function loadPosition(folder: string): SpoolPosition {
  try {
    return JSON.parse(fs.readFileSync(join(folder, 'acked.json'), 'utf8')) as SpoolPosition;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return start;
    throw error;
  }
}

function storePosition(folder: string, position: SpoolPosition): void {
  const path = join(folder, 'acked.json');
  fs.writeFileSync(`${path}.new`, JSON.stringify(position), { mode: 0o600 });
  fs.renameSync(`${path}.new`, path);
}

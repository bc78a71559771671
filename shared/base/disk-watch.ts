import type { Log } from './log.ts';

/** The disk counts as nearly full if less than this share of it is free. */
const lowShare = 0.1;
/**
 * How long a probe's result is cached, so that frequent readiness requests do not load the disk.
 */
const believedMs = 1_000;
const checkEveryMs = 30_000;

interface Space {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

interface DiskWatchOptions {
  /** The watched folder, for the log. */
  readonly folder: string;
  /** Reads free space from the file system. */
  readonly space: () => Promise<Space>;
  /** Writes a small file and removes it; rejects if that fails. */
  readonly probe: () => Promise<void>;
  readonly log: Pick<Log, 'warn'>;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
}

/** Watches the disk that a program writes to: free space, and whether writing works. */
export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #isLow = false;
  #probed: { readonly atMs: number; readonly isWritable: Promise<boolean> } | undefined;

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.freeBytes(), checkEveryMs).unref();
    void this.freeBytes();
  }

  /** Bytes that the program may still write; NaN if the file system does not report them. */
  async freeBytes(): Promise<number> {
    try {
      const space = await this.#options.space();
      this.#warn(space);
      return space.freeBytes;
    } catch {
      return Number.NaN;
    }
  }

  /** True if a probe file could be written. */
  isWritable(): Promise<boolean> {
    const nowMs = this.#options.now();
    if (this.#probed === undefined || nowMs - this.#probed.atMs >= believedMs) {
      const isWritable = this.#options.probe().then(
        () => true,
        () => false,
      );
      this.#probed = { atMs: nowMs, isWritable };
    }
    return this.#probed.isWritable;
  }

  /** Warns once each time free space falls below the threshold. */
  #warn({ freeBytes, sizeBytes }: Space): void {
    const isLow = freeBytes < sizeBytes * lowShare;
    if (isLow && !this.#isLow) {
      const { folder, log } = this.#options;
      log.warn(
        { folder, free_bytes: freeBytes, size_bytes: sizeBytes },
        'less than 10 % of the disk is free: make room, or calls will be denied when it is full',
      );
    }
    this.#isLow = isLow;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

import type { Readable } from 'node:stream';

/** A request as it leaves for an upstream. */
export interface Outgoing {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  readonly method: string;
  /** Origin form. */
  readonly path: string;
  /** Name and value in turn, as undici takes them: `[name, value, name, value, …]`. Without Host and framing. */
  readonly headers: readonly string[];
  readonly body: Buffer | Readable | null;
}

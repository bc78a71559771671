import type { Readable } from 'node:stream';

/** A request as it is sent to an upstream. */
export interface Outgoing {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  readonly method: string;
  /** Origin form (RFC 9112 section 3.2.1). */
  readonly path: string;
  /**
   * Names and values alternate, as undici expects: `[name, value, name, value, …]`. Without Host
   * and framing.
   */
  readonly headers: readonly string[];
  readonly body: Buffer | Readable | null;
}

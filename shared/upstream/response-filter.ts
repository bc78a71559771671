/** The reason why a filter blocked a response. */
export type CutCause = 'credential.reflected' | 'mcp.answer_refused' | 'mcp.transport_unsupported';

/** Inspects a response while it is forwarded. */
export interface ResponseFilter {
  /**
   * Called once with the head. `pass`: the body is forwarded uninspected. `stream`: each chunk goes
   * through `chunk`. `buffer`: the whole body, up to `bytesMax`, goes to `whole`, which replaces
   * it; a larger body is cut. `cut`: nothing is forwarded.
   */
  head(
    status: number,
    headers: Readonly<Record<string, string | readonly string[]>>,
  ): 'pass' | 'stream' | 'buffer' | 'cut';
  /** Returns the bytes to forward now, or `cut` to abort. `last` marks the final call. */
  chunk?(bytes: Buffer, last: boolean): Buffer | 'cut';
  whole?(bytes: Buffer): Buffer | 'cut';
  /** The reason for the last `cut`. Default: `credential.reflected`. */
  cause?(): CutCause;
  /** The largest body that is buffered. Default 1 MiB. */
  readonly bytesMax?: number | undefined;
}

/** Why a filter let an answer go no further. */
export type CutCause = 'credential.reflected' | 'mcp.answer_refused' | 'mcp.transport_unsupported';

/** Looks at an answer as it passes. */
export interface ResponseFilter {
  /**
   * Called once with the head. `stream`: each chunk passes through `chunk`; `buffer`: the whole
   * body (up to `bytesMax`, beyond which the answer is cut) is handed to `whole` and replaced;
   * `cut`: nothing of the answer goes on.
   */
  head(
    status: number,
    headers: Readonly<Record<string, string | readonly string[]>>,
  ): 'pass' | 'stream' | 'buffer' | 'cut';
  /** Returns what may go on now, or `cut` to break off. `last` when no more will come. */
  chunk?(bytes: Buffer, last: boolean): Buffer | 'cut';
  whole?(bytes: Buffer): Buffer | 'cut';
  /** Why it cut, asked after it did. Default: `credential.reflected`. */
  cause?(): CutCause;
  /** The largest body that is buffered. Default 1 MiB. */
  readonly bytesMax?: number | undefined;
}

/** The limits of one agent's connections. */
export interface IngressLimits {
  /** Connections beyond the limit are refused with a response, and far beyond it dropped. */
  readonly connectionsMax: number;
  readonly headerBytesMax: number;
  readonly headerCountMax: number;
  /** Pipelined requests that may wait on one connection. */
  readonly pipelinedMax: number;
  /** Time from the first byte of a connection, or of its next request, to the end of the head. */
  readonly headMs: number;
  readonly handshakeMs: number;
  /** Longest pause within a request's body. */
  readonly bodyIdleMs: number;
  /** Longest pause between two requests on a connection. */
  readonly keepAliveMs: number;
  readonly connectMs: number;
  /** Longest pause in a tunnel. */
  readonly tunnelIdleMs: number;
}

export const defaultLimits: IngressLimits = {
  connectionsMax: 1024,
  headerBytesMax: 32 * 1024,
  headerCountMax: 200,
  pipelinedMax: 32,
  headMs: 20_000,
  handshakeMs: 10_000,
  bodyIdleMs: 60_000,
  keepAliveMs: 65_000,
  connectMs: 10_000,
  tunnelIdleMs: 600_000,
};

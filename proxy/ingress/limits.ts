/** The limits of one agent's connections. */
export interface IngressLimits {
  /** Beyond it a connection is refused in words, and well beyond it dropped. */
  readonly connectionsMax: number;
  readonly headerBytesMax: number;
  readonly headerCountMax: number;
  /** Requests that wait on one connection for the answer to the first. */
  readonly pipelinedMax: number;
  /** From the first byte of a connection, or of the next request on it, to the end of the head. */
  readonly headMs: number;
  readonly handshakeMs: number;
  /** Silence within a request's body. */
  readonly bodyIdleMs: number;
  /** Between two requests. */
  readonly keepAliveMs: number;
  readonly connectMs: number;
  /** Silence in a tunnel. */
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

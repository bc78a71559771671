import { limit, milliseconds } from '../../shared/base/settings.ts';

/** The settings that limit the resources of one agent or upstream. */
export const limitSettings = {
  SALLYPORT_MAX_CONNECTIONS: limit('connections', { from: 1, to: 65_536, byDefault: 1024 }),
  SALLYPORT_MAX_TUNNELS: limit('tunnels', { from: 0, to: 65_536, byDefault: 256 }),
  SALLYPORT_MAX_HELD_CALLS: limit('calls', { from: 0, to: 65_536, byDefault: 128 }),
  SALLYPORT_DENIALS_PER_SECOND: limit('denials', { from: 1, to: 1_000_000, byDefault: 50 }),
  SALLYPORT_DENIALS_BURST: limit('denials', { from: 1, to: 1_000_000, byDefault: 200 }),
  SALLYPORT_MAX_HEADER_BYTES: limit('bytes', { from: 1_024, to: 1_048_576, byDefault: 32_768 }),
  SALLYPORT_MAX_HEADERS: limit('headers', { from: 10, to: 2_000, byDefault: 200 }),
  SALLYPORT_MAX_BODY_BYTES: limit('bytes', { from: 1, to: 16_777_216, byDefault: 1_048_576 }),
  SALLYPORT_BUFFER_BYTES_MAX: limit('bytes', {
    from: 1_048_576,
    to: 17_179_869_184,
    byDefault: 67_108_864,
  }),
  SALLYPORT_HEAD_TIMEOUT_MS: milliseconds(20_000, 1),
  SALLYPORT_BODY_IDLE_MS: milliseconds(60_000, 1),
  SALLYPORT_TUNNEL_IDLE_MS: milliseconds(600_000, 1),
  SALLYPORT_UPSTREAM_CONNECT_MS: milliseconds(10_000, 1),
  SALLYPORT_UPSTREAM_TIMEOUT_MS: milliseconds(60_000, 1),
  SALLYPORT_UPSTREAM_IDLE_MS: milliseconds(120_000, 1),
  SALLYPORT_DRAIN_MS: milliseconds(10_000),
};

type LimitSettings = {
  readonly [Name in keyof typeof limitSettings]: number;
};

/** The limits of one agent and of the upstreams that it calls. */
export interface Limits {
  readonly connectionsMax: number;
  /** WebSockets and passthrough tunnels, together. */
  readonly tunnelsMax: number;
  /** Calls that may wait for a human at the same time. */
  readonly heldCallsMax: number;
  /** Denials per second that are recorded one by one. */
  readonly denialsPerSecond: number;
  /** Denials that are recorded one by one in a burst. */
  readonly denialsBurst: number;
  readonly headerBytesMax: number;
  readonly headersMax: number;
  /** The largest body that is judged. */
  readonly bodyBytesMax: number;
  /** Total size of all bodies that are being judged. */
  readonly bufferBytesMax: number;
  /** Time from the first byte of a request to the end of its head. */
  readonly headMs: number;
  /** Longest pause within a request's body. */
  readonly bodyIdleMs: number;
  /** Longest pause in a tunnel. */
  readonly tunnelIdleMs: number;
  readonly upstreamConnectMs: number;
  /** How long an upstream may take to begin its response. */
  readonly upstreamTimeoutMs: number;
  /** Longest pause within an upstream's response; event streams may pause longer. */
  readonly upstreamIdleMs: number;
  /** How long calls in flight may take to finish at shutdown. */
  readonly drainMs: number;
}

export function readLimits(settings: LimitSettings): Limits {
  return {
    connectionsMax: settings.SALLYPORT_MAX_CONNECTIONS,
    tunnelsMax: settings.SALLYPORT_MAX_TUNNELS,
    heldCallsMax: settings.SALLYPORT_MAX_HELD_CALLS,
    denialsPerSecond: settings.SALLYPORT_DENIALS_PER_SECOND,
    denialsBurst: settings.SALLYPORT_DENIALS_BURST,
    headerBytesMax: settings.SALLYPORT_MAX_HEADER_BYTES,
    headersMax: settings.SALLYPORT_MAX_HEADERS,
    bodyBytesMax: settings.SALLYPORT_MAX_BODY_BYTES,
    bufferBytesMax: settings.SALLYPORT_BUFFER_BYTES_MAX,
    headMs: settings.SALLYPORT_HEAD_TIMEOUT_MS,
    bodyIdleMs: settings.SALLYPORT_BODY_IDLE_MS,
    tunnelIdleMs: settings.SALLYPORT_TUNNEL_IDLE_MS,
    upstreamConnectMs: settings.SALLYPORT_UPSTREAM_CONNECT_MS,
    upstreamTimeoutMs: settings.SALLYPORT_UPSTREAM_TIMEOUT_MS,
    upstreamIdleMs: settings.SALLYPORT_UPSTREAM_IDLE_MS,
    drainMs: settings.SALLYPORT_DRAIN_MS,
  };
}

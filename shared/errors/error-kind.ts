type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * Properties of a reason code in addition to its text. The program reads these fields and never
 * tests a code's prefix.
 */
interface Traits {
  /**
   * The sidecar responds with `status`, because the code describes the call or the upstream;
   * otherwise it responds with 403.
   */
  readonly ownStatus?: true;
  /**
   * The evidence of the call's outcome contains the failure, so the sidecar records no separate
   * refusal.
   */
  readonly isOutcome?: true;
  /** Nothing responded at the address. */
  readonly isUnanswered?: true;
  /** A missing binding may be the cause. */
  readonly mayBeUnbound?: true;
  /**
   * `outage`: the decision does not depend on the action, so the response is not stored under an
   * idempotency key.
   */
  readonly countsAs?: 'outage';
  /** A human decision was required, and no approval could be opened. */
  readonly isUnopened?: true;
  /** `over`: the grant has ended. `unfit`: the grant does not cover the action. */
  readonly grant?: 'over' | 'unfit';
  /**
   * `unproved`: the passport failed verification. `unusable`: the passport is not accepted here.
   */
  readonly passport?: 'unproved' | 'unusable';
  /** The JSON-RPC error of an MCP call; undefined for a refusal by policy. */
  readonly rpc?: 'parse_error' | 'invalid_request' | 'invalid_params' | 'header_mismatch';
  /**
   * MCP requires the HTTP status in addition to the JSON-RPC error (2026-07-28, "Server
   * Validation").
   */
  readonly isHttpError?: true;
  /** The `error` of a 403 in `WWW-Authenticate` (RFC 6750, section 3). */
  readonly challenge?: 'insufficient_scope';
}

export interface ErrorKind extends Traits {
  /** HTTP status of the control plane's response. */
  readonly status: number;
  /** True if the same request may succeed later without a change. */
  readonly retryable: boolean;
  readonly level: LogLevel;
  /** The message for callers if the error has none of its own. */
  readonly text: string;
}

export function refusal(status: number, text: string, traits: Traits = {}): ErrorKind {
  return { status, retryable: false, level: 'info', text, ...traits };
}

export function outage(status: number, text: string, traits: Traits = {}): ErrorKind {
  return { status, retryable: true, level: 'error', text, ...traits };
}

/** Defines the reason code of a refusal that describes the call itself. */
export function fault(status: number, text: string, traits: Traits = {}): ErrorKind {
  return refusal(status, text, { ownStatus: true, ...traits });
}

/** Defines the reason code of an outage that describes the call or this program. */
export function failure(status: number, text: string, traits: Traits = {}): ErrorKind {
  return outage(status, text, { ownStatus: true, ...traits });
}

/** Defines the reason code of a failed upstream. */
export function upstream(status: number, text: string, traits: Traits = {}): ErrorKind {
  return failure(status, text, { isOutcome: true, ...traits });
}

/** Defines the reason code of arguments that cannot be parsed. */
export function unreadable(status: number, text: string): ErrorKind {
  return fault(status, text, { rpc: 'parse_error' });
}

/** Defines the reason code of a passport that failed verification. */
export function unproved(status: number, text: string): ErrorKind {
  return refusal(status, text, { passport: 'unproved' });
}

/** Defines the reason code of a passport that is not accepted here. */
export function unusable(status: number, text: string): ErrorKind {
  return refusal(status, text, { passport: 'unusable' });
}

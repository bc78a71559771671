type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What a reason code means beyond its text. Code asks for these fields, never for a prefix. */
interface Traits {
  /** The sidecar answers with `status`, because the code describes the call or the upstream; else 403. */
  readonly ownStatus?: true;
  /** The evidence of the outcome states the failure, so the sidecar records no refusal besides. */
  readonly isOutcome?: true;
  /** Nothing answered at the address. */
  readonly isUnanswered?: true;
  /** A missing binding may be the reason. */
  readonly mayBeUnbound?: true;
  /** A decision that says nothing about the action: it is not kept for an idempotency key. */
  readonly countsAs?: 'outage';
  /** A human had to be asked, and no approval could be opened. */
  readonly isUnopened?: true;
  /** A grant that no longer holds, or that does not cover the action. */
  readonly grant?: 'over' | 'unfit';
  /** A passport that proves nothing, or that may not be used here. */
  readonly passport?: 'unproved' | 'unusable';
  /** The JSON-RPC error of an MCP call; undefined for a refusal by policy. */
  readonly rpc?: 'parse_error' | 'invalid_request' | 'invalid_params' | 'header_mismatch';
  /** MCP demands the HTTP status too (2026-07-28, "Server Validation"). */
  readonly isHttpError?: true;
  /** The `error` of a 403 in `WWW-Authenticate` (RFC 6750, section 3). */
  readonly challenge?: 'insufficient_scope';
}

export interface ErrorKind extends Traits {
  /** HTTP status of the control plane's answer. */
  readonly status: number;
  /** Whether the same request may succeed later, unchanged. */
  readonly retryable: boolean;
  readonly level: LogLevel;
  /** What a caller reads when the error carries no message of its own. */
  readonly text: string;
}

export function refusal(status: number, text: string, traits: Traits = {}): ErrorKind {
  return { status, retryable: false, level: 'info', text, ...traits };
}

export function outage(status: number, text: string, traits: Traits = {}): ErrorKind {
  return { status, retryable: true, level: 'error', text, ...traits };
}

/** A refusal that describes the call itself. */
export function fault(status: number, text: string, traits: Traits = {}): ErrorKind {
  return refusal(status, text, { ownStatus: true, ...traits });
}

/** An outage that describes the call or this program. */
export function failure(status: number, text: string, traits: Traits = {}): ErrorKind {
  return outage(status, text, { ownStatus: true, ...traits });
}

/** An upstream that failed. */
export function upstream(status: number, text: string, traits: Traits = {}): ErrorKind {
  return failure(status, text, { isOutcome: true, ...traits });
}

/** Arguments that cannot be read. */
export function unreadable(status: number, text: string): ErrorKind {
  return fault(status, text, { rpc: 'parse_error' });
}

/** A passport that proves nothing. */
export function unproved(status: number, text: string): ErrorKind {
  return refusal(status, text, { passport: 'unproved' });
}

/** A passport that may not be used here. */
export function unusable(status: number, text: string): ErrorKind {
  return refusal(status, text, { passport: 'unusable' });
}

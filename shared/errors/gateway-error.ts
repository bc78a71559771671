import type { ErrorKind } from './error-kind.ts';
import { type ErrorCode, errorKinds } from './error-kinds.ts';

interface GatewayErrorOptions {
  /** Public: what was wrong and what to do. Never contains a secret. Default: the code's text. */
  readonly message?: string;
  /** Internal: logged, never sent to a caller. */
  readonly cause?: unknown;
  /** Public fields for the error body, such as `feature` and `min_tier` of a 402. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The single error type. Its code determines status, log level and whether to retry. */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, options: GatewayErrorOptions = {}) {
    super(options.message ?? errorKinds[code].text, { cause: options.cause });
    this.name = 'GatewayError';
    this.code = code;
    this.details = options.details;
  }

  get kind(): ErrorKind {
    return errorKinds[this.code];
  }
}

/** Converts any thrown value to a GatewayError; unknown errors become `internal.unexpected`. */
export function toGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError
    ? thrown
    : new GatewayError('internal.unexpected', { cause: thrown });
}

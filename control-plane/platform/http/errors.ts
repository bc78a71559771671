import type { Response } from 'express';
import type { JsonObject } from '../../../shared/base/json.ts';
import { errorKinds } from '../../../shared/errors/error-kinds.ts';
import { GatewayError, toGatewayError } from '../../../shared/errors/gateway-error.ts';

/**
 * Returns the body of an error response: the fields of contract section 7, and the error's public
 * details.
 */
function errorBody(error: GatewayError, isDecision: boolean): JsonObject {
  const details = (error.details ?? {}) as JsonObject;
  const decision = isDecision ? ({ decision: 'deny' } as const) : {};
  return { ...details, ...decision, error: error.message, reason_code: error.code };
}

// Prisma's codes for a database that is unreachable, timed out, closed the connection or had no
// free connection.
const outageCodes = new Set(['P1000', 'P1001', 'P1002', 'P1008', 'P1017', 'P2024', 'P2028']);
const outageErrnos = new Set(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'ENOTFOUND', 'EPIPE']);

/** Converts any thrown value to the error that the caller receives. */
export function toAnswerable(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  return isStoreOutage(thrown)
    ? new GatewayError('store.unavailable', { cause: thrown })
    : toGatewayError(thrown);
}

// SQLSTATE classes: connection exceptions, and a server that is stopping or starting.
const outageStates = /^(?:08|57P0[1-5])/;
// Driver messages for a broken connection, which have no code.
const outageTexts =
  /connection terminated|connection error|timeout exceeded when trying to connect|server closed the connection/i;
const causesMax = 5;

/** Returns whether any error in the chain of causes means that the database is unavailable. */
function isStoreOutage(thrown: unknown, depth = 0): boolean {
  if (typeof thrown !== 'object' || thrown === null || depth > causesMax) return false;
  const { name, code, message, cause, meta, driverAdapterError } = thrown as Record<
    string,
    unknown
  >;
  const text = String(code ?? '');
  return (
    name === 'PrismaClientInitializationError' ||
    outageCodes.has(text) ||
    outageErrnos.has(text) ||
    outageStates.test(text) ||
    (typeof message === 'string' && outageTexts.test(message)) ||
    isStoreOutage(cause, depth + 1) ||
    isStoreOutage(meta, depth + 1) ||
    isStoreOutage(driverAdapterError, depth + 1)
  );
}

/** Returns the `WWW-Authenticate` header of a 401 or 403 (RFC 6750, section 3). */
function challenge(error: GatewayError, tokenSent: boolean): string | undefined {
  const realm = 'Bearer realm="sallyport"';
  if (error.kind.status === 401) return tokenSent ? `${realm}, error="invalid_token"` : realm;
  if (error.kind.challenge === undefined) return undefined;
  const scope = error.details?.scope;
  const named = typeof scope === 'string' ? `, scope="${scope}"` : '';
  return `${realm}, error="${error.kind.challenge}"${named}`;
}

interface ErrorContext {
  readonly tokenSent: boolean;
  readonly isDecision: boolean;
}

/** The only place that converts an error to an HTTP response. */
export function sendError(
  res: Response,
  error: GatewayError,
  { tokenSent, isDecision }: ErrorContext,
): void {
  const { status, retryable } = errorKinds[error.code];
  const header = challenge(error, tokenSent);
  if (header !== undefined) res.setHeader('www-authenticate', header);
  if (retryable && status === 503 && !res.hasHeader('retry-after')) {
    res.setHeader('retry-after', '1');
  }
  res.status(status);
  res.setHeader('content-type', 'application/json; charset=utf-8');
  res.end(JSON.stringify(errorBody(error, isDecision)));
}

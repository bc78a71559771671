import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from '../access/caller.ts';
import type { Platform } from '../platform.ts';
import type { Metrics } from './metrics.ts';

/** Data that is collected while a request is served, for the access log line. */
interface RequestRecord {
  /** Read at the start, because a closed socket has no address. */
  readonly address: string;
  readonly requestId: string;
  readonly traceparent: string;
  operationId?: string;
  /** True if the operation decides on actions, so that an error is a denial. */
  isDecision?: boolean;
  caller?: Caller;
  error?: GatewayError;
}

const records = new WeakMap<Response, RequestRecord>();
const requestIdForm = /^[0-9A-Za-z._-]{1,64}$/;
const traceForm = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

export function recordOf(res: Response): RequestRecord {
  const found = records.get(res);
  if (found === undefined) throw new Error('the request log must be the first handler');
  return found;
}

const fixedHeaders = [
  ['cache-control', 'no-store'],
  ['content-security-policy', "default-src 'none'; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
  ['referrer-policy', 'no-referrer'],
  ['x-content-type-options', 'nosniff'],
  ['x-frame-options', 'DENY'],
] as const;

/**
 * First middleware: sets request id, trace context and security headers, and logs one line when the
 * request ends.
 */
export function requestLog(
  { clock, log }: Pick<Platform, 'clock' | 'log'>,
  metrics: Metrics,
): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const startedAt = clock.monotonic();
    const fresh = randomUUID().replaceAll('-', '');
    const record: RequestRecord = {
      address: req.socket.remoteAddress ?? 'unknown',
      requestId: accepted(req.headers['x-request-id'], requestIdForm) ?? fresh,
      traceparent:
        accepted(req.headers.traceparent, traceForm) ?? `00-${fresh}-${fresh.slice(16)}-00`,
    };
    records.set(res, record);
    for (const [name, value] of fixedHeaders) res.setHeader(name, value);
    res.setHeader('x-request-id', record.requestId);
    res.setHeader('traceparent', record.traceparent);
    res.once('close', () => {
      const ms = clock.monotonic() - startedAt;
      metrics.observe(record.operationId ?? 'none', res.statusCode, ms / 1000);
      writeLine(log, { req, res, record, ms });
    });
    next();
  };
}

function accepted(given: string | string[] | undefined, form: RegExp): string | undefined {
  return typeof given === 'string' && form.test(given) ? given : undefined;
}

interface Finished {
  readonly req: Request;
  readonly res: Response;
  readonly record: RequestRecord;
  readonly ms: number;
}

/** Logs a request. Paths are logged without their query, which may contain private data. */
function writeLine(log: Platform['log'], { req, res, record, ms }: Finished): void {
  const { error, caller } = record;
  const fields = {
    requestId: record.requestId,
    trace: record.traceparent.slice(3, 35),
    method: req.method,
    path: req.originalUrl.split('?', 1)[0]?.slice(0, 500),
    operation: record.operationId,
    status: res.statusCode,
    complete: res.writableFinished,
    ms: Math.round(ms * 10) / 10,
    tenant: caller?.tenantId,
    principal: caller?.principal,
    keyId: caller?.keyId,
    address: record.address,
    reasonCode: error?.code,
  };
  const level = error?.kind.level ?? 'info';
  // A refusal needs no stack; an outage needs its cause.
  const err = level === 'warn' || level === 'error' ? (error?.cause ?? error) : undefined;
  log[level](err === undefined ? fields : { ...fields, err }, 'request');
}

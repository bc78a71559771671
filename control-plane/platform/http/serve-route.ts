import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response } from 'express';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { type Authenticate, authorise } from '../access/authenticate.ts';
import type { Caller } from '../access/caller.ts';
import { pauser } from '../scheduling/pauser.ts';
import { WorkMeter } from '../scheduling/work-meter.ts';
import { discardRest, parseBody, readBodyOf } from './body.ts';
import type { Budgets } from './budget.ts';
import { sendError, toAnswerable } from './errors.ts';
import { recordOf } from './request-log.ts';
import type { RequestFacts, Route } from './route.ts';
import { send } from './send.ts';
import { validateInput } from './validate.ts';

export interface RequestGuards {
  readonly authenticate: Authenticate;
  readonly budgets: Budgets;
}

/**
 * Handles a request in these steps: authenticate, authorise, charge the budget, parse, run the use
 * case, respond. Does not read the body before the first three steps succeed.
 */
export function serveRoute({ operation, handle }: Route, guards: RequestGuards): RequestHandler {
  return async (req, res) => {
    const record = recordOf(res);
    record.operationId = operation.id;
    record.isDecision = operation.isDecision === true;
    const meter = new WorkMeter();
    try {
      refuseRepeatedHeaders(req);
      const caller = await guards.authenticate(operation, req, (address) =>
        guards.budgets.chargeUnknownKey(address, res),
      );
      record.caller = caller;
      await admit(operation, caller, { res, budgets: guards.budgets });
      const rawBody = await readBodyOf(operation, req);
      const type = req.headers['content-type'];
      const body = await meter.measure(() => parseBody(rawBody, type, operation));
      const pause = pauser();
      const input = meter.measure(() => validateInput(operation, req, body));
      await pause();
      const facts = factsOf(req, res, rawBody);
      const reply = await meter.measure(() => handle(input, caller, facts));
      await meter.measure(() => send(res, operation, reply));
    } catch (thrown) {
      answerError(req, res, thrown);
    } finally {
      const { caller } = record;
      if (caller !== undefined) await guards.budgets.chargeTime(operation, caller, meter.ms);
    }
  };
}

/**
 * Authorises a caller and charges the budget. A refused caller also consumes the tenant's budget,
 * so that probing is not free.
 */
async function admit(
  operation: AnyOperation,
  caller: Caller,
  { res, budgets }: { readonly res: Response; readonly budgets: Budgets },
): Promise<void> {
  try {
    authorise(operation, caller);
  } catch (refusal) {
    await budgets.chargeRefused(caller, res);
    throw refusal;
  }
  await budgets.charge(operation, caller, res);
}

function factsOf(req: Request, res: Response, rawBody: Buffer): RequestFacts {
  const { requestId, traceparent } = recordOf(res);
  const gone = new AbortController();
  res.once('close', () => {
    if (!res.writableFinished) gone.abort();
  });
  return { requestId, traceparent, headers: req.headers, rawBody, signal: gone.signal };
}

/** Sends an error response. If a response has already begun, closes the connection instead. */
export function answerError(req: Request, res: Response, thrown: unknown): void {
  const error = toAnswerable(thrown);
  if (isClientGone(thrown)) return;
  const record = recordOf(res);
  record.error = error;
  if (res.headersSent) {
    res.destroy();
    return;
  }
  if (!req.complete) discardRest(req);
  sendError(res, error, {
    tokenSent: req.headers.authorization !== undefined,
    isDecision: record.isDecision === true,
  });
}

function isClientGone(thrown: unknown): boolean {
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
  return code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNABORTED' || isAborted(thrown);
}

function isAborted(thrown: unknown): boolean {
  return (
    thrown instanceof Error &&
    !(thrown instanceof GatewayError) &&
    thrown.message === 'aborted' &&
    'code' in thrown &&
    thrown.code === 'ECONNRESET'
  );
}

/**
 * Headers that identify the caller or frame the body. If such a header is repeated, parsers
 * disagree on which value counts (RFC 9110, section 5.3): a proxy may check one value while Node
 * reads another.
 */
const once: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'idempotency-key',
  'transfer-encoding',
]);

/** Throws if a request repeats one of these headers. */
function refuseRepeatedHeaders({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): void {
  const seen = new Set<string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? '').toLowerCase();
    if (!once.has(name)) continue;
    if (seen.has(name)) {
      throw new GatewayError('request.header_repeated', {
        message: `The header ${name} is given more than once; send it once.`,
      });
    }
    seen.add(name);
  }
}

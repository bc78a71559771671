import type { Socket } from 'node:net';
import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { reflectionFilter } from '../../shared/upstream/credential-guard.ts';
import { withHeader } from '../../shared/upstream/headers.ts';
import { withCredential } from '../../shared/upstream/inject.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { CallOutcome } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import { recordOutcome } from '../records/record-decision.ts';
import { combineFilters } from '../upstream/combine-filters.ts';
import type { Outcome } from '../upstream/forwarding.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import type { CallContext } from './call-context.ts';
import { stopOf } from './calls-in-flight.ts';
import { lacksCredential } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import { endWhenSilent } from './end-when-silent.ts';

/** A call that may be performed, because its decision allows it and is recorded. */
interface PermittedCall {
  readonly outgoing: Outgoing;
  readonly binding: Binding | undefined;
  readonly credential: HeldCredential | undefined;
  /** Id of the decision's event. */
  readonly evidenceId: string;
  /** Filters the response, in addition to the guard against reflected secrets. */
  readonly filter?: ResponseFilter | undefined;
  readonly responseHeaders: Readonly<Record<string, string>>;
}

/**
 * Performs a permitted call and records how it ended. Rejects if no response has begun, so that the
 * caller can refuse in the right form.
 */
export async function perform(context: CallContext, call: PermittedCall): Promise<void> {
  const { exchange, deps, facts } = context;
  const { clock, streamOpenings } = deps;
  const streams = streamOpenings.before(exchange);
  if (streams !== undefined) await streams;
  streamOpenings.leaves(exchange);
  // Checked again because consuming an approval or fetching a credential takes time.
  assertUnblocked(facts.tool, deps);

  const startedAt = clock.monotonic();
  const outcome = await send(context, call);
  const { binding, credential } = call;
  const lacksIts = lacksCredential(binding, credential);
  if (lacksIts) {
    deps.missingCredentials.report(binding, { tool: facts.tool, status: outcome.status });
  }
  const recorded = {
    decisionId: call.evidenceId,
    facts,
    outcome: lacksIts ? { ...outcome, credential: 'none' as const } : outcome,
    durationMs: clock.monotonic() - startedAt,
  };
  await recordOutcome(recorded, deps);
  const { failure } = outcome;
  if (failure !== undefined && failure !== 'client_gone' && !isAnswered(exchange, outcome)) {
    throw new GatewayError(failure);
  }
}

/**
 * Sends the call to its upstream. Until the call ends, kill switches and revocations can stop it.
 */
async function send(
  { exchange, deps, facts, trace }: CallContext,
  call: PermittedCall,
): Promise<CallOutcome> {
  const { clock, streamOpenings } = deps;
  const { abort } = exchange;
  const { signal } = abort;
  const startedAt = clock.monotonic();
  const permitted = withCredential(call.outgoing, call.credential);
  const sent = trace?.sent(permitted);
  const outgoing = sent === undefined ? permitted : withHeaders(permitted, sent.headers);
  const remove = deps.live.add({ tool: facts.tool, agentId: deps.identity.agentId, abort });
  try {
    const ended =
      exchange.upgrade === undefined
        ? await deps.forward(outgoing, exchange.res, {
            signal,
            ending: deps.stopping,
            onHead: () => streamOpenings.over(exchange),
            filter: intoHeld(exchange, filterFor(call)),
            responseHeaders: responseHeadersOf(call),
          })
        : await tunnel(exchange, { outgoing, call, signal, deps });
    deps.traffic.forwarded(ended, (clock.monotonic() - startedAt) / 1000);
    const outcome = nameStop(ended, signal);
    sent?.ended(outcome);
    return outcome;
  } finally {
    remove();
  }
}

interface Tunnelled {
  readonly outgoing: Outgoing;
  readonly call: PermittedCall;
  readonly signal: AbortSignal;
  readonly deps: EnforceDeps;
}

/**
 * Opens a tunnel. `res` is kept for a refusal, and detached from the socket once the tunnel is
 * open.
 */
async function tunnel(
  { req, res, upgrade }: Exchange,
  { outgoing, call, signal, deps }: Tunnelled,
): Promise<Outcome> {
  if (upgrade === undefined) throw new TypeError('the exchange has no connection to tunnel');
  const release = deps.tunnels.acquire();
  let leave = () => {};
  try {
    return await deps.tunnelUpgrade(
      outgoing,
      { req, ...upgrade },
      {
        signal,
        filter: filterFor(call),
        responseHeaders: responseHeadersOf(call),
        onOpen: (open) => {
          res.detachSocket(upgrade.socket as Socket);
          leave = endWhenSilent(deps.stopping, open);
        },
      },
    );
  } finally {
    leave();
    release();
  }
}

function isAnswered(exchange: Exchange, outcome: CallOutcome): boolean {
  const { held, res } = exchange;
  // If a held stream's response failed after it had begun, its connection is destroyed.
  if (held !== undefined) return res.destroyed || res.writableEnded;
  return res.headersSent || hasOpened(exchange, outcome);
}

/** The held stream's filter runs last, because the other filters expect the upstream's bytes. */
function intoHeld(
  { held }: Exchange,
  filter: ResponseFilter | undefined,
): ResponseFilter | undefined {
  if (held === undefined) return filter;
  return filter === undefined ? held.filter() : combineFilters(filter, held.filter());
}

function hasOpened({ upgrade }: Exchange, { requestBytes }: CallOutcome): boolean {
  return upgrade !== undefined && requestBytes !== undefined;
}

/**
 * Adds the reason why the sidecar ended a call; the forwarder reports such a call as `client_gone`.
 */
function nameStop(ended: Outcome, signal: AbortSignal): CallOutcome {
  const stop = stopOf(signal);
  return ended.failure === 'client_gone' && stop !== undefined
    ? { ...ended, failure: stop }
    : ended;
}

/**
 * Adds a header if no credential was sent, because the upstream may refuse the call for that
 * reason.
 */
function responseHeadersOf({ binding, credential, responseHeaders }: PermittedCall) {
  return lacksCredential(binding, credential)
    ? { ...responseHeaders, 'Sallyport-Credential': 'none' }
    : responseHeaders;
}

function withHeaders(outgoing: Outgoing, set: Readonly<Record<string, string>>): Outgoing {
  const headers = Object.entries(set).reduce<readonly string[]>(
    (held, [name, value]) => withHeader(held, name, value),
    outgoing.headers,
  );
  return { ...outgoing, headers };
}

function filterFor({ credential, filter }: PermittedCall): ResponseFilter | undefined {
  if (credential === undefined) return filter;
  const guard = reflectionFilter([credential.secret]);
  return filter === undefined ? guard : combineFilters(guard, filter);
}

import type { Socket } from 'node:net';
import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { reflectionFilter } from '../../shared/upstream/credential-guard.ts';
import { withHeader } from '../../shared/upstream/headers.ts';
import { withCredential } from '../../shared/upstream/inject.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { CallFacts, CallOutcome } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import { outcomeRecord } from '../records/call-records.ts';
import { combineFilters } from '../upstream/combine-filters.ts';
import type { Outcome } from '../upstream/forwarding.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import type { CallContext } from './call-context.ts';
import { stopOf } from './calls-in-flight.ts';
import { lacksCredential } from './credential.ts';
import type { EnforceDeps } from './deps.ts';
import { endWhenSilent } from './end-when-silent.ts';

/** A call that may be performed: judged, and its decision written down. */
export interface PermittedCall {
  readonly outgoing: Outgoing;
  readonly facts: CallFacts;
  readonly binding: Binding | undefined;
  readonly credential: HeldCredential | undefined;
  /** Id of the decision's event. */
  readonly evidenceId: string;
  /** Looks at the answer as it passes, besides the guard against reflected secrets. */
  readonly filter?: ResponseFilter | undefined;
  readonly responseHeaders: Readonly<Record<string, string>>;
}

/**
 * Performs a permitted call and writes down how it ended. Rejects when nothing has been
 * answered yet, so that the caller can refuse in the right form.
 */
export async function perform(
  exchange: Exchange,
  call: PermittedCall,
  { deps, trace }: Pick<CallContext, 'deps' | 'trace'>,
): Promise<void> {
  const { identity, clock, live, forward, streamOpenings } = deps;
  const subject = { tool: call.facts.tool, agentId: identity.agentId };
  const streams = streamOpenings.before(exchange);
  if (streams !== undefined) await streams;
  streamOpenings.leaves(exchange);
  // Again: it may have taken a while to spend an approval or to fetch a credential.
  assertUnblocked(subject.tool, deps);

  const startedAt = clock.monotonic();
  const permitted = withCredential(call.outgoing, call.credential);
  const sent = trace?.sent(permitted);
  const outgoing = sent === undefined ? permitted : withHeaders(permitted, sent.headers);
  const outcome = await live.track({ ...subject, abort: exchange.abort }, async (signal) => {
    const ended =
      exchange.upgrade === undefined
        ? await forward(outgoing, exchange.res, {
            signal,
            ending: deps.stopping,
            onHead: () => streamOpenings.over(exchange),
            filter: intoHeld(exchange, filterFor(call)),
            responseHeaders: responseHeadersOf(call),
          })
        : await tunnel(exchange, { outgoing, call, signal, deps });
    deps.traffic.forwarded(ended, (clock.monotonic() - startedAt) / 1000);
    return nameStop(ended, signal);
  });
  sent?.ended(outcome);
  reportMissingCredential(call, outcome, deps);
  await recordOutcome(call, outcome, clock.monotonic() - startedAt, deps);
  const { failure } = outcome;
  if (failure !== undefined && failure !== 'client_gone' && !isAnswered(exchange, outcome)) {
    throw new GatewayError(failure);
  }
}

interface Tunnelled {
  readonly outgoing: Outgoing;
  readonly call: PermittedCall;
  readonly signal: AbortSignal;
  readonly deps: EnforceDeps;
}

/** Once it is open the connection carries another protocol: the answer kept for a refusal lets go of it. */
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
  // A response that broke off after it had begun has destroyed the connection.
  if (held !== undefined) return res.destroyed || res.writableEnded;
  return res.headersSent || hasOpened(exchange, outcome);
}

/** Last of all filters, because the others read what the upstream sent. */
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

/** To whoever forwards, a call that is ended from here looks as if its agent had left. */
function nameStop(ended: Outcome, signal: AbortSignal): CallOutcome {
  const stop = stopOf(signal);
  return ended.failure === 'client_gone' && stop !== undefined
    ? { ...ended, failure: stop }
    : ended;
}

/** Tells the agent's side why an upstream may refuse the call. */
function responseHeadersOf({ binding, credential, responseHeaders }: PermittedCall) {
  return lacksCredential(binding, credential)
    ? { ...responseHeaders, 'Sallyport-Credential': 'none' }
    : responseHeaders;
}

function reportMissingCredential(
  { binding, credential, facts: { tool } }: PermittedCall,
  { status }: CallOutcome,
  { missingCredentials }: EnforceDeps,
): void {
  if (lacksCredential(binding, credential)) missingCredentials.report(binding, { tool, status });
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

/** The call has happened: if its outcome cannot be written down, that is an incident for the log. */
async function recordOutcome(
  call: PermittedCall,
  outcome: CallOutcome,
  durationMs: number,
  deps: EnforceDeps,
): Promise<void> {
  const { facts, evidenceId, binding, credential } = call;
  const ended = lacksCredential(binding, credential)
    ? { ...outcome, credential: 'none' as const }
    : outcome;
  try {
    await deps.spool.append(
      outcomeRecord({ decisionId: evidenceId, facts, outcome: ended, durationMs }, deps),
    );
  } catch (error) {
    deps.log.error(
      { err: error, evidenceId },
      'the outcome of a performed call could not be recorded',
    );
  }
}

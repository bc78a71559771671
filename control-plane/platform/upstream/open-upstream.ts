import { setTimeout as delay } from 'node:timers/promises';
import Agent from 'undici/lib/dispatcher/agent.js';
import { formatAuthority } from '../../../shared/base/host.ts';
import { createGuard, type Guard } from '../../../shared/upstream/address-guard.ts';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import { guardedConnector } from '../../../shared/upstream/dial.ts';
import { outboundHeaders, withHeader } from '../../../shared/upstream/headers.ts';
import type { Outgoing } from '../../../shared/upstream/outgoing.ts';
import { portsOf } from '../../../shared/upstream/own-ports.ts';
import { secretScanner } from '../../../shared/upstream/secret-scanner.ts';
import type { Config } from '../config/config.ts';
import { AnswerCollector, type UpstreamOutcome } from './answer-collector.ts';

/** A client for requests to external servers. */
export interface Upstream {
  /**
   * Checks addresses. When a server of this installation begins to listen, its port is added to the
   * guard.
   */
  readonly guard: Guard;
  /**
   * Sends one request at most once, and waits for its response within the limits. Never rejects.
   */
  send(outgoing: Outgoing, secrets: readonly string[]): Promise<UpstreamOutcome>;
  /** Runs `work`, and makes `close` wait until it has ended. */
  track<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Aborts the requests in flight, and waits until these aborts are recorded. */
  close(): Promise<void>;
}

type Settings = Pick<
  Config,
  | 'allowPrivate'
  | 'upstreamConnectMs'
  | 'upstreamTimeoutMs'
  | 'answerBytesMax'
  | 'apiPort'
  | 'databaseUrl'
  | 'redisUrl'
>;

interface UpstreamOptions {
  /** Certificates of additional trusted authorities, in PEM format. */
  readonly ca?: readonly string[] | undefined;
  /** Default: a guard that is built from the settings and uses the system's resolver. */
  readonly guard?: Guard | undefined;
}

/** Maximum time for aborting requests and recording the aborts. */
const recordedMs = 10_000;
const answerHeaderBytesMax = 64 * 1024;

export function openUpstream(settings: Settings, options: UpstreamOptions = {}): Upstream {
  const { upstreamConnectMs: connectTimeoutMs, upstreamTimeoutMs: timeoutMs } = settings;
  const guard = options.guard ?? guardFor(settings);
  const agent = new Agent({
    connect: guardedConnector({ guard, connectTimeoutMs, ca: options.ca }),
    // Uses no keep-alive: if an idle connection ends just when a request is sent on it, nobody
    // knows whether the request was performed.
    pipelining: 0,
    allowH2: false,
    maxHeaderSize: answerHeaderBytesMax,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const stopping = new AbortController();
  const underWay = new Set<Promise<unknown>>();

  const send: Upstream['send'] = (outgoing, secrets) => {
    const { promise, resolve } = Promise.withResolvers<UpstreamOutcome>();
    const filter = secrets.length === 0 ? undefined : reflectionFilter(secrets);
    const collector = new AnswerCollector({ bytesMax: settings.answerBytesMax, filter, resolve });
    const onStop = () => collector.stop('execution.interrupted', 'The control plane ended.');
    const timer = setTimeout(() => {
      collector.stop('upstream.timeout', 'The upstream did not answer whole in time.');
    }, connectTimeoutMs + timeoutMs);
    stopping.signal.addEventListener('abort', onStop, { once: true });
    dispatch(agent, outgoing, collector);
    return promise.then((outcome) => {
      clearTimeout(timer);
      stopping.signal.removeEventListener('abort', onStop);
      return withoutSecrets(outcome, secrets);
    });
  };

  return {
    guard,
    send,
    track: (work) => {
      const running = work();
      underWay.add(running);
      const forget = () => underWay.delete(running);
      running.then(forget, forget);
      return running;
    },
    async close() {
      stopping.abort();
      // Limits the wait, because some requests wait for another replica's response.
      await Promise.race([
        Promise.allSettled(underWay),
        delay(recordedMs, undefined, { ref: false }),
      ]);
      await agent.destroy();
    },
  };
}

/** Removes an error detail that contains a secret: details may contain text from the upstream. */
function withoutSecrets(outcome: UpstreamOutcome, secrets: readonly string[]): UpstreamOutcome {
  const said = Buffer.from(outcome.detail ?? '');
  const isClean = secrets.every((secret) => !secretScanner(secret).finds(said));
  return isClean ? outcome : { ...outcome, detail: undefined };
}

function guardFor({ allowPrivate, apiPort, databaseUrl, redisUrl }: Settings): Guard {
  const ownPorts = portsOf([databaseUrl, redisUrl]);
  return createGuard({ allowPrivate, ownPorts: apiPort === 0 ? ownPorts : [...ownPorts, apiPort] });
}

function dispatch(agent: Agent, outgoing: Outgoing, collector: AnswerCollector): void {
  const { scheme, method, path, body } = outgoing;
  const authority = formatAuthority(outgoing, scheme === 'https' ? 443 : 80);
  const headers = withHeader(outboundHeaders(outgoing.headers), 'accept-encoding', 'identity');
  try {
    agent.dispatch({ origin: `${scheme}://${authority}`, path, method, headers, body }, collector);
  } catch (error) {
    collector.onResponseError(undefined as never, error as Error);
  }
}

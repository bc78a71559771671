import { formatAuthority } from '../../shared/base/host.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { CallFacts, CallOutcome } from '../call/call-facts.ts';
import type { Tunnel } from '../ingress/tunnel.ts';
import { orThrottled } from '../records/denial-throttle.ts';
import {
  recordOutcome,
  recordPass,
  recordRefusal,
  reportThrottled,
} from '../records/record-decision.ts';
import { assertUnblocked } from './assert-unblocked.ts';
import { stopOf } from './calls-in-flight.ts';
import type { EnforceDeps } from './deps.ts';
import { endWhenSilent } from './end-when-silent.ts';
import { passedTool } from './pass-on.ts';

/**
 * Admits a tunnel to a passthrough host, or throws to refuse it. The tunnel's bytes are not read,
 * but a fresh replica is required, start and end are recorded, and a kill switch or a revocation
 * closes the tunnel.
 */
export async function enforceTunnel(tunnel: Tunnel, deps: EnforceDeps): Promise<void> {
  const binding = deps.recognition().index.forHost(tunnel.host, tunnel.port)?.passthrough;
  if (binding === undefined) throw new GatewayError('proxy.unbound_call');
  const host = formatAuthority(tunnel);
  const facts: CallFacts = {
    tool: passedTool({ binding, what: 'passthrough' }),
    resource: host,
    host,
    method: 'CONNECT',
  };
  let release = () => {};
  let isAllowed = false;
  const sinceMs = deps.clock.monotonic();
  const context = { deps, facts, trace: undefined, sinceMs, evidenceId: undefined };
  try {
    assertUnblocked(facts.tool, deps);
    release = deps.tunnels.acquire();
    const evidenceId = await recordPass('binding.passthrough', context);
    isAllowed = true;
    // Checked again, because a change during recording could not yet end this tunnel.
    assertUnblocked(facts.tool, deps);
    if (!isPassthrough(deps, tunnel.host, tunnel.port)) {
      throw new GatewayError('proxy.unbound_call');
    }
    const followed = follow(tunnel, { facts, evidenceId, deps });
    void deps.callsInFlight.add(followed.finally(release));
  } catch (thrown) {
    release();
    const failure = toGatewayError(thrown);
    const error = isAllowed ? failure : orThrottled(failure, deps);
    if (error === failure) await recordRefusal(error.code, context);
    else reportThrottled(context);
    throw error;
  }
}

/** Closes a tunnel when its host is no longer bound as passthrough. */
function endWhenUnbound(tunnel: Tunnel, deps: EnforceDeps): () => void {
  return deps.replica.onChange('bindings', () => {
    if (!isPassthrough(deps, tunnel.host, tunnel.port)) tunnel.close();
  });
}

interface Followed {
  readonly facts: CallFacts;
  readonly evidenceId: string;
  readonly deps: EnforceDeps;
}

/**
 * Ends the tunnel on a kill switch or revocation, and records how it ended. A tunnel that was
 * refused because of the TLS inside it is also recorded as denied. Never rejects.
 */
async function follow(tunnel: Tunnel, { facts, evidenceId, deps }: Followed): Promise<void> {
  const startedAt = deps.clock.monotonic();
  const unsubscribe = endWhenUnbound(tunnel, deps);
  let failure: CallOutcome['failure'];
  const leave = endWhenSilent(deps.stopping, {
    bytes: () => tunnel.bytes(),
    end: () => {
      failure = 'proxy.draining';
      tunnel.close();
    },
  });
  const abort = new AbortController();
  const stop = () => {
    failure = stopOf(abort.signal);
    tunnel.close();
  };
  abort.signal.addEventListener('abort', stop, { once: true });
  const remove = deps.live.add({ tool: facts.tool, agentId: deps.identity.agentId, abort });
  const end = await tunnel.ended.finally(remove);
  unsubscribe();
  leave();
  const { sni } = end;
  if (end.refusal !== undefined)
    await recordRefusal(end.refusal, { deps, facts, trace: undefined, sni });
  const outcome = {
    requestBytes: end.sentBytes,
    responseBytes: end.receivedBytes,
    detail: end.failure,
    failure: failure ?? end.refusal,
    sni,
  };
  const durationMs = deps.clock.monotonic() - startedAt;
  await recordOutcome({ decisionId: evidenceId, facts, outcome, durationMs }, deps);
}

/**
 * False without a verified snapshot; the connection is then intercepted, so that calls get a proper
 * refusal.
 */
export function isPassthrough(
  deps: Pick<EnforceDeps, 'recognition'>,
  host: string,
  port: number,
): boolean {
  try {
    return deps.recognition().index.forHost(host, port)?.passthrough !== undefined;
  } catch {
    return false;
  }
}

import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { GatewayError, toGatewayError } from '../../shared/errors.ts';
import { formatAuthority } from '../../shared/host.ts';
import type { Tunnel } from '../ingress/tunnel.ts';
import type { EnforceDeps } from './deps.ts';
import { endWhenSilent } from './end-when-silent.ts';
import { passedTool } from './pass-on.ts';
import { type CallFacts, outcomeRecord } from './record.ts';
import { recordRefusal, writeDownPass } from './write-down.ts';

/**
 * A tunnel to a passthrough host: unread, but only on a fresh replica, recorded before it stands
 * and after it ended, and broken off by a kill switch. Throws to refuse it.
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
  const subject = { tool: facts.tool, agentId: deps.identity.agentId };
  const assertAllowed = () => {
    deps.replica.assertFresh();
    if (blockingSwitch(deps.replica.killSwitches, subject, deps.clock.now()) !== undefined) {
      throw new GatewayError('runtime.kill_switch');
    }
  };
  let giveBack = () => {};
  const sinceMs = deps.clock.monotonic();
  const way = { deps, advance: () => {}, trace: undefined, sinceMs };
  try {
    assertAllowed();
    giveBack = deps.tunnels.take();
    const pass = { facts, reasonCode: 'binding.passthrough' };
    const evidenceId = await writeDownPass(pass, way);
    // Again: a switch that was armed meanwhile found no tunnel to end.
    assertAllowed();
    const followed = follow(tunnel, { facts, evidenceId, subject, deps });
    void deps.underway.add(followed.finally(giveBack));
  } catch (error) {
    giveBack();
    await recordRefusal(toGatewayError(error).code, facts, way);
    throw error;
  }
}

/** Ends a tunnel when its host is no longer passed through, or the sidecar is revoked. */
function endWhenUnbound(tunnel: Tunnel, { recognition, replica }: EnforceDeps): () => void {
  const look = () => {
    const { passthrough } = recognition().index.forHost(tunnel.host, tunnel.port) ?? {};
    if (passthrough === undefined || replica.isRevoked('')) tunnel.close();
  };
  const stops = [replica.onChange('bindings', look), replica.onChange('revocations', look)];
  return () => {
    for (const stop of stops) stop();
  };
}

interface Followed {
  readonly facts: CallFacts;
  readonly evidenceId: string;
  readonly subject: { readonly tool: string; readonly agentId: string };
  readonly deps: EnforceDeps;
}

/** Ends the tunnel when a kill switch is armed, and records how it ended. Never rejects. */
async function follow(
  tunnel: Tunnel,
  { facts, evidenceId, subject, deps }: Followed,
): Promise<void> {
  const startedAt = deps.clock.monotonic();
  const never = new AbortController().signal;
  const unsubscribe = endWhenUnbound(tunnel, deps);
  let failure: 'proxy.draining' | 'runtime.kill_switch' | undefined;
  const leave = endWhenSilent(deps.stopping, {
    bytes: () => tunnel.bytes(),
    end: () => {
      failure = 'proxy.draining';
      tunnel.close();
    },
  });
  const end = await deps.live.track({ ...subject, signal: never }, (signal) => {
    const kill = () => {
      failure = 'runtime.kill_switch';
      tunnel.close();
    };
    signal.addEventListener('abort', kill, { once: true });
    return tunnel.ended;
  });
  unsubscribe();
  leave();
  const outcome = {
    requestBytes: end.sentBytes,
    responseBytes: end.receivedBytes,
    detail: end.failure,
    failure,
  };
  const durationMs = deps.clock.monotonic() - startedAt;
  try {
    await deps.spool.append(
      outcomeRecord({ decisionId: evidenceId, facts, outcome, durationMs }, deps),
    );
  } catch (error) {
    deps.log.error({ err: error, evidenceId }, 'the end of a tunnel could not be recorded');
  }
}

/** Without a verified snapshot no host is known to be one: it is read, and refused in good form. */
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

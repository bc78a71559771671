import type { Clock } from '../../shared/base/clock.ts';
import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Identity } from '../base/identity.ts';
import type { Replica } from '../replica/replica.ts';

interface UnblockedDeps {
  readonly replica: Replica;
  readonly identity: Identity;
  readonly clock: Clock;
}

/**
 * Throws if calls to this tool are blocked at the moment, regardless of earlier decisions and the
 * tenant's mode: the replica is too old, the sidecar or agent is revoked, or a kill switch is
 * armed.
 */
export function assertUnblocked(tool: string, { replica, identity, clock }: UnblockedDeps): void {
  const { agentId } = identity;
  replica.assertFresh();
  const revocation = replica.revocationOf(agentId);
  if (revocation !== undefined) throw new GatewayError(revocation);
  if (blockingSwitch(replica.killSwitches, { tool, agentId }, clock.now()) !== undefined) {
    throw new GatewayError('runtime.kill_switch');
  }
}

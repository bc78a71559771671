import type { Clock } from '../../shared/clock.ts';
import type { Mode } from '../../shared/decision/action.ts';
import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { isEnforcing } from '../../shared/decision/mode.ts';
import { matchesAnyGlob } from '../../shared/glob.ts';
import type { Identity } from '../identity.ts';
import type { Replica } from '../replica/replica.ts';

interface ReachDeps {
  readonly replica: Pick<Replica, 'killSwitches' | 'tenant' | 'agent' | 'publishedTool'>;
  readonly identity: Pick<Identity, 'agentId'>;
  readonly clock: Clock;
}

/**
 * True for a tool that this agent's calls never reach, whatever their arguments: a kill switch
 * blocks it, it waits for approval or was rejected, or the agent's capabilities do not cover it.
 * Where the tenant's mode stops nothing, only a kill switch does.
 */
export function isOutOfReach(tool: string, { replica, identity, clock }: ReachDeps): boolean {
  const { agentId } = identity;
  if (blockingSwitch(replica.killSwitches, { tool, agentId }, clock.now()) !== undefined) {
    return true;
  }
  if (!isEnforcing(replica.tenant.mode)) return false;
  const published = replica.publishedTool(tool);
  const status = published?.approvalStatus ?? unregisteredIn(replica.tenant.mode);
  if (status !== 'approved') return true;
  return !matchesAnyGlob(replica.agent(agentId)?.capabilities ?? [], tool, 'tool');
}

/** Unregistered tools are left to policy, but not where the tenant is strict. */
function unregisteredIn(mode: Mode): 'approved' | 'rejected' {
  return mode === 'strict' ? 'rejected' : 'approved';
}

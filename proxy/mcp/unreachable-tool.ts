import type { Clock } from '../../shared/base/clock.ts';
import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { isEnforcing } from '../../shared/decision/mode.ts';
import { matchesAnyGlob } from '../../shared/glob/glob.ts';
import type { CallTarget } from '../../shared/policy/engine/strict-scope.ts';
import { type Mode, stricterMode } from '../../shared/vocabulary/action.ts';
import type { Identity } from '../base/identity.ts';
import type { Replica } from '../replica/replica.ts';

interface ReachDeps {
  readonly replica: Pick<
    Replica,
    'killSwitches' | 'tenant' | 'agent' | 'policies' | 'publishedTool'
  >;
  readonly identity: Pick<Identity, 'agentId'>;
  readonly clock: Clock;
}

/**
 * True for a tool that this agent's calls never reach, whatever their arguments: a kill switch
 * blocks the tool, the tool waits for approval or was rejected, or the agent's capabilities do not
 * cover the tool. If neither the tenant's mode nor a `strict` policy enforces refusals, only the
 * kill switch counts.
 */
export function isUnreachable(tool: string, { replica, identity, clock }: ReachDeps): boolean {
  const { agentId } = identity;
  if (blockingSwitch(replica.killSwitches, { tool, agentId }, clock.now()) !== undefined) {
    return true;
  }
  const mode = modeFor(replica, { tool, agentId });
  if (!isEnforcing(mode)) return false;
  const published = replica.publishedTool(tool);
  const status = published?.approvalStatus ?? unregisteredIn(mode);
  if (status !== 'approved') return true;
  return !matchesAnyGlob(replica.agent(agentId)?.capabilities ?? [], tool, 'tool');
}

function modeFor({ tenant, policies }: ReachDeps['replica'], target: CallTarget): Mode {
  return stricterMode(tenant.mode, policies.strict.covers(target) ? 'strict' : 'monitor');
}

/**
 * The status of unregistered tools in a mode. Policies decide on these tools, except in mode
 * `strict`, which rejects them.
 */
function unregisteredIn(mode: Mode): 'approved' | 'rejected' {
  return mode === 'strict' ? 'rejected' : 'approved';
}

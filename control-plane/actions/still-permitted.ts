import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import { effectiveMode } from '../../shared/decision/mode.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { stricterMode } from '../../shared/vocabulary/action.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Services } from '../core/services.ts';
import { loadState, type StateRequest } from './load-state.ts';

/**
 * Asked right before an action is sent: throws when what was decided a moment ago no longer holds,
 * because a kill switch was armed, the agent disabled, the passport revoked, or the tool changed.
 */
export async function assertStillPermitted(
  services: Services,
  request: StateRequest,
  verdict: Verdict,
): Promise<void> {
  const { action } = request;
  const state = await loadState(services, request);
  const now = services.clock.now();
  if (state.agentDisabled === true) throw new GatewayError('agent.disabled');
  if (state.agent === undefined) throw new GatewayError('agent.not_found');
  const armed = blockingSwitch(state.killSwitches, action, now);
  if (armed !== undefined) throw new GatewayError('runtime.kill_switch');
  const mode = effectiveMode(action, state, now);
  if (stricterMode(mode, verdict.mode) !== verdict.mode) {
    throw new GatewayError('runtime.kill_switch', {
      message: `The mode ${mode} came into force after the decision was made.`,
    });
  }
  if (verdict.enforced) assertUnchanged(state, verdict);
}

function assertUnchanged({ passport, tool }: DecisionState, verdict: Verdict): void {
  if (passport?.form === 'signed' && passport.revoked) throw new GatewayError('passport.revoked');
  const isSame = tool?.manifestHash === verdict.toolManifestHash;
  const isApproved = tool === undefined || tool.approvalStatus === 'approved';
  if (!isSame || !isApproved) throw new GatewayError('tool.manifest_changed');
}

import { type Action, type Mode, stricterMode } from '../vocabulary/action.ts';
import { appliesTo } from './kill-switch.ts';
import type { DecisionState } from './state.ts';

/**
 * The mode of a decision. Preflight uses the requested mode; at an enforcement point, a request can
 * only tighten the tenant's mode. After that, kill switches and policies in `strict` can only
 * tighten the mode.
 */
export function effectiveMode(action: Action, state: DecisionState, nowMs: number): Mode {
  if (isStrictByPolicy(action, state)) return 'strict';
  let mode = requestedMode(action, state);
  for (const killSwitch of state.killSwitches) {
    if (killSwitch.kind !== 'force_mode' || !appliesTo(killSwitch, action, nowMs)) continue;
    mode = stricterMode(mode, killSwitch.mode ?? 'strict');
  }
  return mode;
}

function isStrictByPolicy({ tool, agentId }: Action, { policies }: DecisionState): boolean {
  return policies.strict.covers({ tool, agentId });
}

function requestedMode({ mode }: Action, { point, tenant }: DecisionState): Mode {
  if (mode === undefined) return tenant.mode;
  switch (point) {
    case 'preflight':
      return mode;
    case 'enforcement':
      return stricterMode(mode, tenant.mode);
  }
}

/** True if a refusal stops the call: in all modes except `monitor` and `warn`. */
export function isEnforcing(mode: Mode): boolean {
  return mode !== 'monitor' && mode !== 'warn';
}

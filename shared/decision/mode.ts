import { type Action, type Mode, stricterMode } from '../vocabulary/action.ts';
import { appliesTo } from './kill-switch.ts';
import type { DecisionState } from './state.ts';

/**
 * The mode a decision is made in. Preflight honours the request, an enforcement point lets a
 * request only tighten the tenant's mode. Kill switches and policies in `strict` only ever tighten.
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

/** True in the modes in which a refusal stops the call. Anything but the two lenient ones does. */
export function isEnforcing(mode: Mode): boolean {
  return mode !== 'monitor' && mode !== 'warn';
}

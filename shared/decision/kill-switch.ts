import { compileGlob } from '../glob/glob.ts';
import type { Action } from '../vocabulary/action.ts';
import type { KillSwitch } from './state.ts';

type Target = Pick<Action, 'agentId' | 'tool'>;

/**
 * The first armed kill switch that blocks a call by this agent to this tool. Checked in every
 * decision, and again directly before dispatch.
 */
export function blockingSwitch(
  killSwitches: readonly KillSwitch[],
  target: Target,
  nowMs: number,
): KillSwitch | undefined {
  for (const killSwitch of killSwitches) {
    if (killSwitch.kind !== 'force_mode' && appliesTo(killSwitch, target, nowMs)) {
      return killSwitch;
    }
  }
  return undefined;
}

/** True until the switch expires. */
export function isArmed({ expiresAtMs }: KillSwitch, nowMs: number): boolean {
  return expiresAtMs === undefined || nowMs < expiresAtMs;
}

/**
 * True if a switch is armed and applies to this call. Agent and tool limits must both match; a
 * switch without limits applies to all calls.
 */
export function appliesTo(killSwitch: KillSwitch, target: Target, nowMs: number): boolean {
  const { agentId, tool } = killSwitch;
  if (!isArmed(killSwitch, nowMs)) return false;
  if (agentId !== undefined && agentId !== target.agentId) return false;
  return tool === undefined || tool === target.tool || compileGlob(tool, 'tool')(target.tool);
}

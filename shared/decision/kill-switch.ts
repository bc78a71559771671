import { compileGlob } from '../glob/glob.ts';
import type { Action } from '../vocabulary/action.ts';
import type { KillSwitch } from './state.ts';

type Target = Pick<Action, 'agentId' | 'tool'>;

/**
 * The first armed switch that blocks a call of this tool by this agent. Asked in every decision,
 * and again right before dispatch.
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

/** True until a switch expires. */
export function isArmed({ expiresAtMs }: KillSwitch, nowMs: number): boolean {
  return expiresAtMs === undefined || nowMs < expiresAtMs;
}

/** True when a switch is armed and reaches this call. Both limits hold; one that sets none reaches all. */
export function appliesTo(killSwitch: KillSwitch, target: Target, nowMs: number): boolean {
  const { agentId, tool } = killSwitch;
  if (!isArmed(killSwitch, nowMs)) return false;
  if (agentId !== undefined && agentId !== target.agentId) return false;
  return tool === undefined || tool === target.tool || compileGlob(tool, 'tool')(target.tool);
}

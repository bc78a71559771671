import type { JsonObject } from '../base/json.ts';

/** How much a verdict is enforced, from least to most. */
export const modes = ['monitor', 'warn', 'enforce', 'strict'] as const;
export type Mode = (typeof modes)[number];

export const environments = ['dev', 'staging', 'prod'] as const;
export type Environment = (typeof environments)[number];

export const riskTiers = ['low', 'medium', 'high', 'critical'] as const;
export type RiskTier = (typeof riskTiers)[number];

/** The stricter of two modes. */
export function stricterMode(one: Mode, other: Mode): Mode {
  return modes.indexOf(one) >= modes.indexOf(other) ? one : other;
}

/** What an agent wants to do, in the same form at every decision point. */
export interface Action {
  readonly tenantId: string;
  /** The registered agent's integer id as a decimal string. */
  readonly agentId: string;
  readonly agentName?: string | undefined;
  /** The human on whose behalf the agent acts. */
  readonly userId: string;
  /** Namespaced tool id, for example `mcp.payments.refund`. */
  readonly tool: string;
  /** `type:id`, or an id alone. */
  readonly resource: string;
  readonly args: JsonObject;
  /**
   * What an MCP message carries beside its arguments: `meta`, `task`, `input_responses`,
   * `request_state`, `headers`. Undefined where it carries nothing that is judged.
   */
  readonly mcp?: JsonObject | undefined;
  readonly goal?: string | undefined;
  /** The mode asked for; how far it counts depends on the decision point. */
  readonly mode?: Mode | undefined;
  readonly audience?: string | undefined;
}

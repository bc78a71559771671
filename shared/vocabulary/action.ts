import type { JsonObject } from '../base/json.ts';

/** Enforcement modes, from least to most strict. */
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

/** An agent's action, in the same form at every decision point. */
export interface Action {
  readonly tenantId: string;
  /** The registered agent's integer id as a decimal string. */
  readonly agentId: string;
  readonly agentName?: string | undefined;
  /** The human on whose behalf the agent acts. */
  readonly userId: string;
  /** Namespaced tool id, for example `mcp.payments.refund`. */
  readonly tool: string;
  /** `type:id`, or only an id. */
  readonly resource: string;
  readonly args: JsonObject;
  /**
   * Members of an MCP message other than its arguments: `meta`, `task`, `input_responses`,
   * `request_state`, `headers`. Undefined if the message has none of them.
   */
  readonly mcp?: JsonObject | undefined;
  readonly goal?: string | undefined;
  /**
   * The requested mode. In preflight, the requested mode replaces the tenant's mode; at an
   * enforcement point, it can only tighten the tenant's mode.
   */
  readonly mode?: Mode | undefined;
  readonly audience?: string | undefined;
}

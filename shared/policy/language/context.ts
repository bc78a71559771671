import type { JsonObject } from '../../base/json.ts';

/** The context that policy paths are resolved against. Unknown fields are absent. */
export interface PolicyContext extends JsonObject {
  readonly tenant?: JsonObject;
  readonly agent?: JsonObject;
  readonly user?: JsonObject;
  readonly tool?: JsonObject;
  readonly passport?: JsonObject;
  readonly args?: JsonObject;
  /** Members of an MCP message other than its arguments. */
  readonly mcp?: JsonObject;
  readonly resource?: JsonObject;
  readonly environment?: string;
  /**
   * The agent's past usage of the tool. Sums are keyed by their path below `args`, including dots.
   */
  readonly usage?: JsonObject;
}

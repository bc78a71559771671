import type { JsonObject } from '../../base/json.ts';

/** What policy paths resolve against (contract 2.4). Absent fields are simply not there. */
export interface PolicyContext extends JsonObject {
  readonly tenant?: JsonObject;
  readonly agent?: JsonObject;
  readonly user?: JsonObject;
  readonly tool?: JsonObject;
  readonly passport?: JsonObject;
  readonly args?: JsonObject;
  /** What an MCP message carries beside its arguments. */
  readonly mcp?: JsonObject;
  readonly resource?: JsonObject;
  readonly environment?: string;
  /** What the agent has already done with the tool; the sums hold their paths below `args`, dots and all. */
  readonly usage?: JsonObject;
}

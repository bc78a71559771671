import { approvalActions } from '../vocabulary/approval-states.ts';
import { decisions } from '../vocabulary/verdict.ts';

/** Every `decision` value of events: verdicts on actions and acts on approvals. */
export const recordedDecisions = [...new Set([...decisions, ...approvalActions])];
export type RecordedDecision = (typeof recordedDecisions)[number];

import { approvalActions } from '../vocabulary/approval-states.ts';
import { decisions } from '../vocabulary/verdict.ts';

/** Every `decision` that an event can have: of a verdict on an action, or of an act on an approval. */
export const recordedDecisions = [...new Set([...decisions, ...approvalActions])];
export type RecordedDecision = (typeof recordedDecisions)[number];

import { approvalStates, isOpen } from '../../shared/vocabulary/approval-states.ts';

/** States that wait for a human decision. */
export const openStates = approvalStates.filter(isOpen);

/** How long sidecars receive a decision: the lifetime of a grant for one call. */
export const deliveredMs = 3_600_000;

import { approvalStates, isOpen } from '../../shared/vocabulary/approval-states.ts';

/** The states in which a human decision is still awaited. */
export const openStates = approvalStates.filter(isOpen);

/** How long a decision is told to the sidecar that asked: as long as a grant can be used at most. */
export const deliveredMs = 3_600_000;

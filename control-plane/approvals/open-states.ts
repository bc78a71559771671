import { approvalStates, isOpen } from '../../shared/vocabulary/approval-states.ts';

/** States that wait for a human decision. */
export const openStates = approvalStates.filter(isOpen);

/** A decision is sent to sidecars for this long, which is the lifetime of a grant for one call. */
export const deliveredMs = 3_600_000;

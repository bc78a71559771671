import { approvalStates, isOpen } from '../../shared/approval/states.ts';

/** The states in which a human decision is still awaited. */
export const openStates = approvalStates.filter(isOpen);

export const approvalStates = [
  'pending',
  'context_requested',
  'reauth_required',
  'tool_reapproval_required',
  'escalated',
  'approved',
  'denied',
  'modified',
  'expired',
] as const;
export type ApprovalState = (typeof approvalStates)[number];

export const approvalActions = [
  'approve',
  'deny',
  'modify',
  'request_context',
  'require_reauth',
  'require_tool_reapproval',
  'escalate',
  'expire',
] as const;
export type ApprovalAction = (typeof approvalActions)[number];

type Moves = Readonly<Partial<Record<ApprovalAction, ApprovalState>>>;

const moves = {
  approve: 'approved',
  deny: 'denied',
  modify: 'modified',
  request_context: 'context_requested',
  require_reauth: 'reauth_required',
  require_tool_reapproval: 'tool_reapproval_required',
  escalate: 'escalated',
  expire: 'expired',
} as const;
const { request_context: _c, ...allButContext } = moves;
const { require_reauth: _r, ...allButReauth } = moves;
const { require_tool_reapproval: _t, modify: _m, ...allButReapproval } = moves;
const { escalate: _e, ...allButEscalate } = moves;

/** The allowed transitions. All others are refused. */
const table: Readonly<Record<ApprovalState, Moves>> = {
  pending: moves,
  context_requested: allButContext,
  reauth_required: allButReauth,
  tool_reapproval_required: allButReapproval,
  escalated: allButEscalate,
  approved: {},
  denied: {},
  modified: {},
  expired: {},
};

/** The state that an action leads to; undefined if the table does not allow it. */
export function transition(
  state: ApprovalState,
  action: ApprovalAction,
): ApprovalState | undefined {
  return table[state][action];
}

/** True while the approval waits for a human decision. */
export function isOpen(state: ApprovalState): boolean {
  return table[state].expire !== undefined;
}

/**
 * The effective state: an open approval past its window is expired, even before the sweep stores
 * that.
 */
export function stateAt(
  approval: { readonly status: ApprovalState; readonly expiresAtMs: number },
  nowMs: number,
): ApprovalState {
  return isOpen(approval.status) && nowMs >= approval.expiresAtMs ? 'expired' : approval.status;
}

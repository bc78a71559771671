import type { DecisionState } from '../../shared/decision/state.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { alwaysPolicies } from '../support/policy/policy-sets.ts';

/** The moment that vectors are written for: 2027-01-15T08:00:00Z. */
export const nowMs = 1_800_000_000_000;
const now = nowMs / 1000;

export const baseAction: Action = {
  tenantId: 'acme',
  agentId: '7',
  userId: 'alice',
  tool: 'mcp.payments.refund',
  resource: 'payment:pay_1',
  args: { amount: 50, customer_id: 'cus_1' },
};

export const baseClaims: PassportClaims = {
  iss: 'https://gateway.example',
  sub: '7',
  aud: 'gateway://agents',
  tenant_id: 'acme',
  user_id: 'alice',
  goal: 'settle refunds',
  allowed_tools: ['mcp.payments.*'],
  allowed_resources: [],
  resource_constraints: {},
  risk_tier: 'low',
  policy_id: 'refunds',
  policy_hash: `sha256:${'b'.repeat(64)}`,
  approval_hash: null,
  jti: 'pp_0190000000007000800000000000abcd',
  iat: now - 10,
  nbf: now - 10,
  exp: now + 290,
};

export function signedPassport(
  claims: Partial<PassportClaims> = {},
  more: Partial<Extract<PassportState, { form: 'signed' }>> = {},
): Extract<PassportState, { form: 'signed' }> {
  return {
    form: 'signed',
    claims: { ...baseClaims, ...claims },
    source: 'presented',
    revoked: false,
    use: 'unclaimed',
    ...more,
  };
}

export const baseState: DecisionState = {
  point: 'preflight',
  audience: 'gateway://agents',
  tenant: { id: 'acme', name: 'Acme', mode: 'enforce' },
  environment: 'prod',
  killSwitches: [],
  agent: { id: '7', name: 'refund-bot', goal: 'support', capabilities: ['mcp.payments.*'] },
  user: { id: 'alice', email: 'alice@acme.com', role: 'support' },
  tool: {
    name: 'mcp.payments.refund',
    manifestHash: `sha256:${'c'.repeat(64)}`,
    approvedHash: `sha256:${'c'.repeat(64)}`,
    approvalStatus: 'approved',
    riskTier: 'medium',
  },
  policies: alwaysPolicies('allow', 'refund.small_in_scope'),
};

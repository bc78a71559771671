import { describe, expect, it } from 'vitest';
import { type Decided, decisionEvent } from '../../../control-plane/actions/decision-event.ts';
import { decisionRecord } from '../../../proxy/records/call-records.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import type { Verdict } from '../../../shared/vocabulary/verdict.ts';
import { manualClock } from '../../support/base/manual-clock.ts';
import { nowMs } from '../fixtures.ts';

const clock = manualClock(nowMs);
const setting = { keep: 'redacted', sensitiveFields: [] } as const;

const action: Action = {
  tenantId: 'acme',
  agentId: '7',
  userId: 'bob',
  tool: 'mcp.payments.refund',
  resource: 'payment:pay_1',
  args: { amount: 50, password: 'x' },
  mcp: { request_state: 's' },
  goal: 'settle refunds',
};

/** A verdict that sets everything that an event can record. */
const verdict: Verdict = {
  decision: 'warn',
  reasonCode: 'refund.large',
  summary: 'A large refund.',
  mode: 'warn',
  enforced: false,
  matchedRules: ['refunds/large'],
  observed: [{ rule: 'trial/r', decision: 'deny', reason: 'test' }],
  riskTier: 'high',
  toolManifestHash: 'sha256:c',
  policyHash: 'sha256:b',
  nextSteps: [],
  passportJti: 'pp_1',
  effects: [{ kind: 'count_usage', sums: { amount: 50 } }],
  seen: {
    agentName: 'refund-bot',
    isGoalRegistered: true,
    userRole: 'support',
    isApprovalBound: true,
  },
};

/** A verdict that leaves out everything that can be absent. */
const bareVerdict: Verdict = {
  decision: 'deny',
  reasonCode: 'policy.no_match',
  summary: 'No rule matched.',
  mode: 'enforce',
  enforced: true,
  matchedRules: [],
  observed: [],
  riskTier: 'medium',
  nextSteps: [],
  effects: [],
};

const bareAction: Action = { ...action, mcp: undefined, goal: undefined };

const identity = {
  sidecarId: 's',
  tenantId: 'acme',
  agentId: '7',
  userId: 'alice',
  environment: 'prod',
} as const;

const facts = {
  tool: action.tool,
  resource: action.resource,
  host: 'pay.example:443',
  method: 'POST',
};

/** Returns the text that is sealed, without the random id and digests. */
function sealedText(event: EvidenceEvent): string {
  return canonicalJson(event)
    .replaceAll(/hmac-sha256:[0-9a-f]{64}/g, '<digest>')
    .replace(/ev_[0-9a-f]{32}/, '<id>');
}

function memberNames({ data }: EvidenceEvent): readonly string[] {
  return Object.keys(JSON.parse(canonicalJson(data)) as object);
}

describe('the event of a decision', () => {
  const decided: Decided = {
    action,
    verdict,
    setting,
    approvalId: 9,
    usageRun: 'run_1',
    ...({ environment: 'prod', point: 'enforcement' } as const),
    isAnswerKept: true,
    principal: 'anna',
    upstream: { binding: 'pay', credential_id: 'c', host: 'pay.example', method: 'POST' },
  };

  it('has the expected bytes if the control plane writes the event', () => {
    expect(sealedText(decisionEvent(decided, clock).event)).toBe(
      '{"agent_id":"7","chain_id":"agent:7","data":{"answer_kept":true,"approval_id":9,' +
        '"args_digest":"<digest>","args_kept_digest":"<digest>",' +
        '"args_shape":{"amount":"number","password":"string"},"asked_by":"anna",' +
        '"enforced":false,"environment":"prod","goal":"settle refunds",' +
        '"manifest_hash":"sha256:c","matched_rules":["refunds/large"],' +
        '"mcp_digest":"<digest>","mcp_shape":{"request_state":"string"},"mode":"warn",' +
        '"observed":[{"decision":"deny","reason":"test","rule":"trial/r"}],' +
        '"passport_jti":"pp_1","point":"enforcement","policy_hash":"sha256:b",' +
        '"risk_tier":"high","seen":{"agent_name":"refund-bot","approval_bound":true,' +
        '"goal_registered":true,"user_role":"support"},"upstream":{"binding":"pay",' +
        '"credential_id":"c","host":"pay.example","method":"POST"},"usage":{"amount":50},' +
        '"usage_run":"run_1"},"decision":"warn","id":"<id>",' +
        '"occurred_at":"2027-01-15T08:00:00.000Z","reason_code":"refund.large",' +
        '"resource":"payment:pay_1","source":"control-plane","tool":"mcp.payments.refund",' +
        '"type":"decision","user_id":"bob"}',
    );
  });

  it('has the expected bytes if a sidecar writes the event', () => {
    const record = decisionRecord(
      { action, verdict, facts, approvalId: 9, usageRun: 'run_1', setting },
      { identity, clock },
    );
    expect(sealedText(record.event)).toBe(
      '{"agent_id":"7","chain_id":"agent:7","data":{"acted_for":"bob","approval_id":9,' +
        '"args_digest":"<digest>","args_kept_digest":"<digest>",' +
        '"args_shape":{"amount":"number","password":"string"},"enforced":false,' +
        '"environment":"prod","goal":"settle refunds","host":"pay.example:443",' +
        '"manifest_hash":"sha256:c","matched_rules":["refunds/large"],' +
        '"mcp_digest":"<digest>","mcp_shape":{"request_state":"string"},"method":"POST",' +
        '"mode":"warn","observed":[{"decision":"deny","reason":"test","rule":"trial/r"}],' +
        '"passport_jti":"pp_1","policy_hash":"sha256:b","risk_tier":"high",' +
        '"seen":{"agent_name":"refund-bot","approval_bound":true,"goal_registered":true,' +
        '"user_role":"support"},"usage":{"amount":50},"usage_run":"run_1"},' +
        '"decision":"warn","id":"<id>","occurred_at":"2027-01-15T08:00:00.000Z",' +
        '"reason_code":"refund.large","resource":"payment:pay_1","source":"sidecar:s",' +
        '"tool":"mcp.payments.refund","type":"decision","user_id":"alice"}',
    );
  });

  it('omits members without a value', () => {
    const always = [
      'args_digest',
      'args_shape',
      'enforced',
      'environment',
      'matched_rules',
      'mode',
      'risk_tier',
    ];
    const bare = { action: bareAction, verdict: bareVerdict, usageRun: 'run_1' };
    const at = { environment: 'prod', point: 'preflight', principal: 'anna' } as const;
    expect(memberNames(decisionEvent({ ...bare, ...at }, clock).event)).toEqual(
      [...always, 'asked_by', 'point'].toSorted(),
    );
    const own = { ...bare, action: { ...bareAction, userId: identity.userId }, facts };
    expect(memberNames(decisionRecord(own, { identity, clock }).event)).toEqual(
      [...always, 'host', 'method'].toSorted(),
    );
  });

  it('already has its members in canonical order before it is sealed', () => {
    const control = decisionEvent(decided, clock).event;
    const sidecar = decisionRecord(
      { action, verdict, facts, usageRun: 'run_1' },
      { identity, clock },
    ).event;
    for (const event of [control, sidecar]) {
      expect(JSON.stringify(event)).toBe(canonicalJson(event));
    }
  });
});

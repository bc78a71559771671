import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../shared/approval/action-digest.ts';
import { decide } from '../../../shared/decision/decide.ts';
import { explainVerdict } from '../../../shared/decision/explain.ts';
import { isEnforcing } from '../../../shared/decision/mode.ts';
import { passportStatus } from '../../../shared/decision/passport-status.ts';
import type { AgentRecord, DecisionState, KillSwitch } from '../../../shared/decision/state.ts';
import type { PassportClaims } from '../../../shared/passport/claims.ts';
import type { PassportState } from '../../../shared/passport/passport-state.ts';
import type { PolicySet } from '../../../shared/policy/engine/policy-set.ts';
import { type Action, type Mode, modes } from '../../../shared/vocabulary/action.ts';
import type { ApprovalProof } from '../../../shared/vocabulary/approval-proof.ts';
import type { ToolRecord } from '../../../shared/vocabulary/tool-record.ts';
import { type Decision, decisions, mayProceed } from '../../../shared/vocabulary/verdict.ts';
import { alwaysPolicies, noPolicies, unaskedPolicies } from '../../support/policy/policy-sets.ts';
import { baseAction, baseState, nowMs, signedPassport } from '../fixtures.ts';
import { loadVectors } from '../load-vectors.ts';

type SignedState = Extract<PassportState, { form: 'signed' }>;
type PassportGiven = Partial<Omit<SignedState, 'form' | 'claims'>> & {
  readonly form?: PassportState['form'];
  readonly claims?: Partial<PassportClaims>;
};

interface DecisionVector {
  readonly name: string;
  readonly mode?: Mode;
  readonly point?: DecisionState['point'];
  readonly action?: Partial<Action>;
  readonly agent?: 'none' | Partial<AgentRecord>;
  readonly disabled?: boolean;
  readonly tool?: 'none' | Partial<ToolRecord>;
  readonly argsProblem?: string;
  readonly passport?: PassportGiven;
  readonly approval?: Partial<ApprovalProof>;
  readonly killSwitches?: readonly Partial<KillSwitch>[];
  readonly policies: Decision | 'none' | 'unasked';
  readonly reason?: string;
  /** True if a published policy in mode `strict` applies to the call. */
  readonly strict?: boolean;
  readonly gives: readonly [Decision, string];
  readonly enforced?: boolean;
  readonly status?: number;
  readonly effects?: readonly string[];
  readonly durable?: boolean;
}

function policiesOf(vector: DecisionVector): PolicySet {
  const set = outcomesOf(vector);
  return vector.strict === true ? { ...set, strict: { isEmpty: false, covers: () => true } } : set;
}

function outcomesOf({ policies, reason = 'rule.reason' }: DecisionVector): PolicySet {
  if (policies === 'none') return noPolicies;
  return policies === 'unasked' ? unaskedPolicies : alwaysPolicies(policies, reason);
}

function recordOf<Full extends object>(base: Full | undefined, given?: 'none' | Partial<Full>) {
  if (given === 'none' || base === undefined) return undefined;
  return { ...base, ...given };
}

function passportOf(vector: DecisionVector, action: Action): PassportState | undefined {
  if (vector.passport === undefined) return undefined;
  const { form = 'signed', claims, ...more } = vector.passport;
  if (form !== 'signed') return { form, detail: 'given so' };
  const approval = vector.approval && {
    approvalId: 5,
    eventHash: 'h',
    actionDigest: digestOf(action, baseState.tool?.manifestHash),
    granted: true,
    used: false,
    expiresAtMs: nowMs + 1,
    deciders: { role: 'approver', count: 1 },
    ...vector.approval,
  };
  return signedPassport(claims, { ...more, approval });
}

function judge(vector: DecisionVector) {
  const action = { ...baseAction, ...vector.action };
  const tool = recordOf(baseState.tool, vector.tool);
  const state: DecisionState = {
    ...baseState,
    point: vector.point ?? 'preflight',
    tenant: { ...baseState.tenant, mode: vector.mode ?? 'enforce' },
    agent: recordOf(baseState.agent, vector.agent),
    agentDisabled: vector.disabled,
    tool: tool && { ...tool, validateArgs: () => vector.argsProblem },
    passport: passportOf(vector, action),
    killSwitches: (vector.killSwitches ?? []).map((given, index) => ({
      id: `ks_${index}`,
      kind: 'block_tool',
      reason: 'incident 12',
      ...given,
    })),
    policies: policiesOf(vector),
  };
  return decide(action, state, nowMs);
}

describe('the stages of a decision', () => {
  const vectors = loadVectors<DecisionVector>('decision/stages.yaml');

  it.each(vectors)('lead to the expected verdict: $name', (vector) => {
    const verdict = judge(vector);
    expect([verdict.decision, verdict.reasonCode]).toEqual(vector.gives);
    expect(verdict.enforced).toBe(vector.enforced ?? true);
    expect(verdict.effects.map(({ kind }) => kind)).toEqual(vector.effects ?? []);
    expect(passportStatus(verdict)).toBe(vector.status ?? 200);
    const claim = verdict.effects.find((effect) => effect.kind === 'claim_passport');
    if (vector.durable !== undefined) expect(claim).toMatchObject({ durable: vector.durable });
  });

  it.each(vectors)('give at least one next step for every denial: $name', (vector) => {
    const verdict = judge(vector);
    expect(verdict.summary).not.toBe('');
    const isRefusal = verdict.decision !== 'allow' && vector.policies !== 'warn';
    if (isRefusal) expect(verdict.nextSteps.length).toBeGreaterThan(0);
  });

  it.each(vectors)('are deterministic: $name', (vector) => {
    expect(judge(vector)).toEqual(judge(vector));
  });
});

describe('the effects of a verdict', () => {
  it('include a claim that lasts longer than the passport', () => {
    const verdict = decide(baseAction, { ...baseState, passport: signedPassport() }, nowMs);
    const { jti, exp } = signedPassport().claims;
    expect(verdict.effects).toEqual([
      { kind: 'claim_passport', jti, expiresAtMs: exp * 1000, durable: false },
    ]);
    expect(verdict.passportJti).toBe(jti);
  });

  it('are empty if the passport is known to be claimed already; the verdict then reports a replay', () => {
    const taken = { ...baseState, passport: signedPassport({}, { use: 'replayed' }) } as const;
    expect(decide(baseAction, taken, nowMs)).toMatchObject({
      decision: 'deny',
      reasonCode: 'passport.replay_detected',
      effects: [],
    });
  });

  it('include an approval with the terms of the rules', () => {
    const terms = { channels: ['chat_a'], minRole: 'admin', quorum: 2, slaSeconds: 60 };
    const policies = alwaysPolicies('require_approval', 'r', terms);
    expect(decide(baseAction, { ...baseState, policies }, nowMs).effects).toEqual([
      { kind: 'open_approval', terms },
    ]);
  });

  it('include no approval if JSON cannot represent the arguments', () => {
    const action = { ...baseAction, args: { note: '\ud800' } };
    const approval = {
      approvalId: 1,
      eventHash: 'h',
      actionDigest: 'x',
      granted: true,
      used: false,
      expiresAtMs: nowMs + 1,
    };
    const passport = signedPassport({ approval_hash: 'h' }, { approval });
    expect(decide(action, { ...baseState, passport }, nowMs)).toMatchObject({
      decision: 'deny',
      reasonCode: 'approval.invalid',
    });
  });
});

describe('a verdict', () => {
  it('contains the hashes and the risk tier on which the verdict depends', () => {
    const verdict = decide(baseAction, baseState, nowMs);
    expect(verdict).toMatchObject({
      riskTier: 'medium',
      toolManifestHash: baseState.tool?.manifestHash,
      matchedRules: ['test/allow'],
      mode: 'enforce',
    });
    expect(verdict.policyHash).toMatch(/^sha256:/);
  });

  it('has the risk tier of the passport if the tool is unknown, and medium risk if there is also no passport', () => {
    const state = { ...baseState, tool: undefined };
    const passport = signedPassport({ risk_tier: 'critical' });
    expect(decide(baseAction, { ...state, passport }, nowMs).riskTier).toBe('critical');
    expect(decide(baseAction, state, nowMs).riskTier).toBe('medium');
  });

  it('contains the reason of the kill switch that caused a denial', () => {
    const killSwitch = { id: 'k', kind: 'block_tool', reason: 'incident 12' } as const;
    const verdict = decide(baseAction, { ...baseState, killSwitches: [killSwitch] }, nowMs);
    expect(verdict.summary).toContain('incident 12');
  });

  it('is explained in the form of the contract, with observed rules only if there are any', () => {
    const verdict = decide(baseAction, baseState, nowMs);
    expect(explainVerdict(verdict)).toEqual({
      summary: verdict.summary,
      matched_rules: ['test/allow'],
      next_steps: [],
    });
    const observed = [{ rule: 'p/r', decision: 'deny', reason: 'x' }];
    expect(explainVerdict({ ...verdict, observed })).toMatchObject({ observed });
  });
});

describe('the enforcement modes', () => {
  const anyMode = fc.constantFrom(...modes);
  const anyDecision = fc.constantFrom(...decisions);
  const forced = fc.array(
    fc.record({
      id: fc.constant('k'),
      kind: fc.constant('force_mode' as const),
      mode: anyMode,
      reason: fc.constant('r'),
    }),
    { maxLength: 3 },
  );
  const rank = (mode: Mode) => modes.indexOf(mode);

  it('are never loosened at an enforcement point by a request or a kill switch', () => {
    fc.assert(
      fc.property(anyMode, fc.option(anyMode), forced, anyDecision, (tenant, asked, ks, given) => {
        const state: DecisionState = {
          ...baseState,
          point: 'enforcement',
          tenant: { ...baseState.tenant, mode: tenant },
          killSwitches: ks,
          policies: alwaysPolicies(given, 'r'),
        };
        const verdict = decide({ ...baseAction, mode: asked ?? undefined }, state, nowMs);
        const least = Math.max(rank(tenant), ...ks.map(({ mode }) => rank(mode)));
        expect(rank(verdict.mode)).toBe(Math.max(least, asked === null ? 0 : rank(asked)));
        if (isEnforcing(tenant) && given !== 'allow' && given !== 'warn') {
          expect(mayProceed(verdict)).toBe(false);
        }
      }),
    );
  });

  it('let a call proceed in every looser mode if the call proceeds in a stricter mode', () => {
    fc.assert(
      fc.property(anyMode, anyMode, anyDecision, fc.boolean(), (one, other, given, signed) => {
        const [looser, tighter] = rank(one) <= rank(other) ? [one, other] : [other, one];
        const proceeds = (mode: Mode) =>
          mayProceed(
            decide(
              baseAction,
              {
                ...baseState,
                tenant: { ...baseState.tenant, mode },
                passport: signed ? signedPassport() : undefined,
                policies: alwaysPolicies(given, 'r'),
              },
              nowMs,
            ),
          );
        if (proceeds(tighter)) expect(proceeds(looser)).toBe(true);
      }),
    );
  });

  it('do not let a call proceed if an armed kill switch blocks the call', () => {
    for (const mode of modes) {
      const state: DecisionState = {
        ...baseState,
        tenant: { ...baseState.tenant, mode },
        killSwitches: [{ id: 'k', kind: 'block_agent', agentId: '7', reason: 'r' }],
      };
      expect(mayProceed(decide(baseAction, state, nowMs))).toBe(false);
    }
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decisionEvent } from '../../../../control-plane/actions/decision-event.ts';
import { decisionRecord } from '../../../../proxy/records/call-records.ts';
import type { JsonObject, JsonValue } from '../../../../shared/base/json.ts';
import { buildContext } from '../../../../shared/decision/context.ts';
import { decide } from '../../../../shared/decision/decide.ts';
import type { DecisionState } from '../../../../shared/decision/state.ts';
import type { EvidenceEvent } from '../../../../shared/ledger/event.ts';
import {
  knownContext,
  type StoredDecision,
} from '../../../../shared/ledger/privacy/known-context.ts';
import { compilePolicies } from '../../../../shared/policy/engine/compile.ts';
import {
  admits,
  type PartialValue,
  readPartial,
} from '../../../../shared/policy/uncertain/partial-value.ts';
import type { Action } from '../../../../shared/vocabulary/action.ts';
import { manualClock } from '../../../support/base/manual-clock.ts';

const clock = manualClock(1_700_000_000_000);

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('amount', 'to', 'customer_id', 'a', 'length', '0') },
  {
    weight: 1,
    arbitrary: fc.constantFrom('__proto__', '(__proto__)', 'x'.repeat(100), 'x'.repeat(130)),
  },
  { weight: 1, arbitrary: fc.string({ maxLength: 8 }) },
);
const value: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<JsonValue>(0, 5, 'c1', '', 'x', true, false, null),
    fc.array(tie('value'), { maxLength: 3 }),
    membersOf(tie('value')),
  ),
})).value;

function membersOf(member: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonObject> {
  return fc
    .array(fc.tuple(name, member), { maxLength: 40 })
    .map((pairs) => pairs.map((pair) => pair.map((part) => JSON.stringify(part)).join(':')))
    .map((members) => JSON.parse(`{${members.join(',')}}`) as JsonObject);
}

const action: fc.Arbitrary<Action> = fc.record({
  tenantId: fc.constant('acme'),
  agentId: fc.constant('7'),
  userId: fc.constantFrom('u1', 'u2'),
  tool: fc.constantFrom('pay', 'mail.send', 't'.repeat(300), '-'),
  resource: fc.constantFrom('customer:c1', 'payment:1', 'bare', 'r'.repeat(2000), 'x:\0y'),
  args: membersOf(value),
  mcp: fc.option(
    fc.record(
      { meta: membersOf(value), input_responses: membersOf(value), request_state: fc.string() },
      { requiredKeys: [] },
    ),
    { nil: undefined },
  ),
  goal: fc.constantFrom(undefined, 'Refund', ''),
});

const state: fc.Arbitrary<DecisionState> = fc
  .record({
    agent: fc.constantFrom(
      { id: '7', name: 'bot', capabilities: ['**'] },
      { id: '7', name: 'bot', goal: 'registered', capabilities: ['**'] },
    ),
    user: fc.constantFrom(undefined, { id: 'u1' }, { id: 'u1', role: 'dev', email: 'a@b.c' }),
    tool: fc.constantFrom(undefined, {
      name: 'pay',
      manifestHash: 'sha256:1',
      approvedHash: 'sha256:1',
      approvalStatus: 'approved' as const,
      riskTier: 'high' as const,
    }),
    environment: fc.constantFrom('dev' as const, 'prod' as const),
  })
  .map((some) => ({
    point: 'preflight' as const,
    audience: 'gateway://agents',
    tenant: { id: 'acme', name: 'Acme', mode: 'enforce' as const },
    killSwitches: [],
    policies: compilePolicies([]),
    ...some,
  }));

/** Returns the event in the form in which the ledger returns it. */
function stored(event: EvidenceEvent): StoredDecision {
  return JSON.parse(JSON.stringify({ ...event, tenant: 'acme' })) as StoredDecision;
}

function byControlPlane(one: Action, at: DecisionState): StoredDecision {
  const verdict = decide(one, at, clock.now());
  const { environment, point } = at;
  const decided = { action: one, verdict, environment, point, principal: 'p', usageRun: 'r' };
  return stored(decisionEvent(decided, clock).event);
}

function bySidecar(one: Action, at: DecisionState): StoredDecision {
  const verdict = decide(one, at, clock.now());
  const { tool, resource, agentId, tenantId } = one;
  const facts = { tool, resource, host: 'h', method: 'POST' };
  const { environment } = at;
  const identity = { sidecarId: 's', tenantId, agentId, userId: 'u1', environment };
  return stored(
    decisionRecord({ action: one, verdict, facts, usageRun: 'r' }, { identity, clock }).event,
  );
}

/** Returns the first path at which the full context contradicts the partial one. */
function contradiction(partial: PartialValue, full: JsonObject): string | undefined {
  return Object.keys(full).find((root) => !admits(readPartial(partial, [root]), full[root]));
}

describe('the known context of a stored decision', () => {
  it.each([
    ['control plane', byControlPlane],
    ['sidecar', bySidecar],
  ] as const)('is consistent with the full context on which the %s decided', (_who, record) => {
    fc.assert(
      fc.property(action, state, (one, at) => {
        const known = knownContext(record(one, at));
        const full = JSON.parse(JSON.stringify(buildContext(one, at))) as JsonObject;
        expect(contradiction(known, full)).toBeUndefined();
        expect(admits(known, full)).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  it('contains everything except argument values and the e-mail address of the user', () => {
    const one: Action = {
      tenantId: 'acme',
      agentId: '7',
      userId: 'u1',
      tool: 'pay',
      resource: 'payment:1',
      args: { amount: 5, to: ['a'], note: null },
      goal: 'Refund',
    };
    const at = fc.sample(state, 1)[0] as DecisionState;
    const known = knownContext(
      byControlPlane(one, {
        ...at,
        agent: { id: '7', name: 'bot', capabilities: ['**'] },
        user: { id: 'u1', role: 'dev', email: 'a@b.c' },
        environment: 'dev',
        tool: undefined,
      }),
    );
    const at2 = (path: string) => readPartial(known, path.split('.'));
    expect(at2('agent.name')).toEqual({ known: 'bot' });
    expect(at2('agent.goal')).toEqual({ known: 'Refund' });
    expect(at2('user.role')).toEqual({ known: 'dev' });
    expect(at2('user.email')).toEqual({ kinds: ['string', 'absent'] });
    expect(at2('environment')).toEqual({ known: 'dev' });
    expect(at2('tool.risk_tier')).toEqual({ known: undefined });
    expect(at2('args.amount')).toEqual({ kinds: ['number'] });
    expect(at2('args.other')).toEqual({ known: undefined });
    expect(at2('args.note')).toEqual({ known: null });
    expect(at2('args.to.0')).toEqual({ kinds: ['string'] });
    expect(at2('passport')).toEqual({ known: undefined });
  });

  it.each([
    ['args_shape', 'a text'],
    ['args_shape', 7],
    ['seen', 'a text'],
    ['seen', { user_role: { x: 1 } }],
    ['environment', 5],
    ['manifest_hash', {}],
  ])(
    'is available even if the member %s of the event has the malformed value %j',
    (member, given) => {
      const event = { tenant: 'acme', agent_id: '7', tool: 'pay', resource: 'x', data: {} };
      const known = knownContext({ ...event, data: { [member]: given as JsonValue } });
      expect(readPartial(known, ['tool', 'name'])).toEqual({ known: 'pay' });
    },
  );
});

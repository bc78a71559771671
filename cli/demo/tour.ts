import type { AgentAnswer } from './agent.ts';
import type { DecisionSeen, ExpectedDecision, World } from './world.ts';

export interface Step {
  readonly title: string;
  run(world: World): Promise<{
    /** The tool whose decision is checked in the ledger. */
    readonly tool: string;
    readonly result: string;
  }>;
  readonly expected: ExpectedDecision;
}

/** Thrown if a step did not have the expected result. */
export class StepFailed extends Error {
  override readonly name = 'StepFailed';
}

function expectStep(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new StepFailed(otherwise);
}

const refunds = (world: World) => `${world.paymentsUrl}/v1/refunds`;

function refund(
  world: World,
  amount: number,
  headers: Record<string, string> = {},
): Promise<AgentAnswer> {
  return world.agent.do({
    kind: 'fetch',
    url: refunds(world),
    method: 'POST',
    headers,
    body: { payment_id: 'pay_42', amount },
  });
}

function tool(world: World, name: string, args: Record<string, unknown>): Promise<AgentAnswer> {
  return world.agent.do({ kind: 'mcp', url: `${world.crmUrl}/mcp`, tool: name, args });
}

function performedRefunds(world: World): number {
  return world.payments.seen.filter(({ method }) => method === 'POST').length;
}

const allowedRest: Step = {
  title: 'A refund of 50 is allowed',
  async run(world) {
    const answer = await refund(world, 50);
    expectStep(answer.status === 200, `the agent got ${answer.status}: ${answer.text}`);
    const seen = world.payments.seen.at(-1);
    expectStep(
      seen?.authorization === `Bearer ${world.secret}`,
      'the API did not see the real secret',
    );
    expectStep(!JSON.stringify(answer).includes(world.secret), 'the agent saw the secret');
    return {
      tool: 'payments.refund',
      result: 'the API saw the real secret, the agent never had it',
    };
  },
  expected: { decision: 'allow', reason: 'refund.small_in_scope' },
};

const allowedMcp: Step = {
  title: 'An MCP tool call is allowed',
  async run(world) {
    const answer = await tool(world, 'lookup_customer', { customer_id: 'cus_7' });
    expectStep(answer.text.includes('Ada Lovelace'), `the agent got ${answer.text}`);
    return { tool: 'mcp.crm.lookup_customer', result: 'the official MCP client needed no change' };
  },
  expected: { decision: 'allow', reason: 'crm.read' },
};

const modelCall: Step = {
  title: 'The model call passes through',
  async run(world) {
    const answer = await world.agent.do({
      kind: 'fetch',
      url: `${world.modelUrl}/v1/messages`,
      method: 'POST',
      body: { prompt: 'Refund?' },
    });
    expectStep(answer.text.endsWith('[DONE]\n\n'), `the agent got ${answer.text}`);
    return { tool: 'passthrough.model', result: 'streamed unread, and recorded' };
  },
  expected: { decision: 'allow', reason: 'binding.passthrough' },
};

const deniedArgument: Step = {
  title: 'A refund of 5,000 is denied by its amount',
  async run(world) {
    const before = performedRefunds(world);
    const answer = await refund(world, 5000);
    expectStep(answer.status === 403, `the agent got ${answer.status}`);
    expectStep(
      performedRefunds(world) === before,
      'the API was called although the call was denied',
    );
    return { tool: 'payments.refund', result: 'the API was never called' };
  },
  expected: { decision: 'deny', reason: 'refund.out_of_policy' },
};

const unknownTool: Step = {
  title: 'A tool that no policy knows is denied',
  async run(world) {
    const answer = await tool(world, 'export_customers', { recipient: 'mallory@example.org' });
    expectStep(answer.status === 403, `the agent got ${answer.text}`);
    expectStep(
      !world.crm.performed.some((call) => call.startsWith('export')),
      'the server was called although the call was denied',
    );
    return {
      tool: 'mcp.crm.export_customers',
      result: 'denied by default, reported in-band to the model',
    };
  },
  expected: { decision: 'deny', reason: 'policy.no_match' },
};

const approvedOnce: Step = {
  title: 'A refund of 500 waits for a human, is approved and performed once',
  async run(world) {
    const before = performedRefunds(world);
    const held = refund(world, 500);
    const approval = await world.pendingApproval();
    expectStep(performedRefunds(world) === before, 'the API was called before the approval');
    await world.decide(approval, 'approve');
    const answer = await held;
    expectStep(answer.status === 200, `the agent got ${answer.status}: ${answer.text}`);
    expectStep(performedRefunds(world) === before + 1, 'the refund was not executed exactly once');
    return { tool: 'payments.refund', result: `approval ${approval} granted through the API` };
  },
  expected: { decision: 'allow', reason: 'approval.satisfied' },
};

const approvalIsConsumed: Step = {
  title: 'The same refund again is not covered by that approval',
  async run(world) {
    const before = performedRefunds(world);
    const answer = await refund(world, 500);
    expectStep(answer.status === 202, `the agent got ${answer.status}`);
    expectStep(performedRefunds(world) === before, 'the refund was executed a second time');
    return { tool: 'payments.refund', result: 'refused until a human approves again' };
  },
  expected: { decision: 'require_approval', reason: 'refund.needs_approval' },
};

const replayedPassport: Step = {
  title: 'A passport presented twice is refused the second time',
  async run(world) {
    const passport = await world.issuePassport();
    const headers = { 'action-passport': passport.token };
    const first = await refund(world, 20, headers);
    expectStep(first.status === 200, `the first use got ${first.status}: ${first.text}`);
    const second = await refund(world, 20, headers);
    expectStep(second.status === 403, `the second use got ${second.status}`);
    return { tool: 'payments.refund', result: 'single use, across all replicas' };
  },
  expected: { decision: 'deny', reason: 'passport.replay_detected' },
};

const revokedPassport: Step = {
  title: 'A revoked passport is refused',
  async run(world) {
    const passport = await world.issuePassport();
    await world.revokePassport(passport.jti);
    const answer = await refund(world, 20, { 'action-passport': passport.token });
    expectStep(answer.status === 403, `the agent got ${answer.status}: ${answer.text}`);
    return { tool: 'payments.refund', result: 'revocation reached the sidecar over the bus' };
  },
  expected: { decision: 'deny', reason: 'passport.revoked' },
};

/** The calls of the tour, in order. */
export const tour: readonly Step[] = [
  allowedRest,
  allowedMcp,
  modelCall,
  deniedArgument,
  unknownTool,
  approvedOnce,
  approvalIsConsumed,
  replayedPassport,
  revokedPassport,
];

/** Compares the decision in the ledger with the expected one. */
export function hasExpectedDecision(step: Step, seen: DecisionSeen): boolean {
  return seen.decision === step.expected.decision && seen.reason === step.expected.reason;
}

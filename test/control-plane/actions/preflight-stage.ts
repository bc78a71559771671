import { preflight } from '../../../shared/contract/actions.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import type { TestServicesOptions } from '../../support/control-plane/services.ts';

/** A gateway with one agent, and a policy with a rule for each kind of decision. */
export async function preflightStage(options: TestServicesOptions = {}) {
  const gateway = await startGateway(options);
  const agentId = await gateway.agent();
  const policyHash = await gateway.publish(
    rule('allow', 'pay'),
    rule('deny', 'shell'),
    rule('require_approval', 'refund'),
    rule('warn', 'mail'),
  );
  const action = (more: object = {}) => ({
    tool: 'pay',
    resource: 'invoice:7',
    args: { amount: 5 },
    agent_id: agentId,
    user_id: 'user-1',
    ...more,
  });
  return {
    gateway,
    agentId,
    policyHash,
    action,
    ask: (more: object = {}, client = gateway.owner) =>
      client.call(preflight, { body: action(more) }),
    passportFor: (more: object = {}) => passportFor(gateway, agentId, more),
    sealed: (eventId: string, tenantId = 'default') => sealed(gateway, eventId, tenantId),
  };
}

async function passportFor(gateway: Gateway, agentId: string, more: object) {
  const { passport, jti } = await gateway.owner.call(issuePassport, {
    body: {
      tenant_id: 'default',
      agent_id: agentId,
      user_id: 'user-1',
      goal: 'Work',
      allowed_tools: ['**'],
      risk_tier: 'low',
      policy_id: 'p1',
      audience: 'gateway://agents',
      ttl_seconds: 300,
      ...more,
    },
  });
  return { passport, jti };
}

/** Returns the ledger row of an event, and the event that the row contains. */
async function sealed(gateway: Gateway, eventId: string, tenantId: string) {
  const where = { tenantId_eventId: { tenantId, eventId } };
  const row = await gateway.services.db.evidenceRow.findUniqueOrThrow({ where });
  return { row, event: JSON.parse(row.canonical) as { data: Record<string, unknown> } };
}

import {
  issueAgentPassport,
  refreshAgentPassport,
  renewAgentPassport,
} from '../../../shared/contract/agent-passports.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import { refusalOf, rule, startGateway } from '../../support/control-plane/gateway.ts';

/** A gateway with an agent that may pay, mail and read, and whose passports are renewed. */
export async function renewalStage() {
  const gateway = await startGateway();
  await gateway.publish(rule('allow', 'pay'), rule('allow', 'mail'));
  const agent_id = Number(await gateway.agent('renewing', ['pay', 'mail', 'read.*']));
  const { owner } = gateway;
  const body = (passport: string, more: object) => ({ agent_id, passport, ...more }) as never;
  return {
    gateway,
    agent_id,
    issue: (more: object = {}) =>
      owner.call(issueAgentPassport, {
        body: { agent_id, requested_tools: ['pay', 'mail'], ...more } as never,
      }),
    renew: (passport: string, more: object = {}) =>
      owner.call(renewAgentPassport, { body: body(passport, more) }),
    refresh: (passport: string, more: object = {}) =>
      owner.call(refreshAgentPassport, { body: body(passport, more) }),
    refused: async (call: Promise<unknown>) => {
      const { code, details } = await refusalOf(call);
      return [details?.status, code];
    },
    use: (passport: string) =>
      gateway.post('/v1/actions/preflight', {
        tool: 'pay',
        resource: 'payment:1',
        agent_id: String(agent_id),
        user_id: 'u',
        passport,
      }),
    capable: (...capabilities: string[]) =>
      owner.call(registerAgent, { body: { name: 'renewing', capabilities } as never }),
  };
}

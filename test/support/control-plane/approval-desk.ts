import type { JsonObject } from '../../../shared/base/json.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { type Gateway, rule, startGateway } from './gateway.ts';
import type { TestServicesOptions } from './services.ts';

export interface Asked {
  readonly tool?: string;
  readonly resource?: string;
  readonly args?: JsonObject;
  readonly user_id?: string;
  readonly agent_id?: string;
  readonly passport?: string;
}

export interface Act {
  readonly action: string;
  readonly comment?: string;
  readonly modified_args?: JsonObject;
}

/**
 * Starts a gateway with an agent whose calls need approval, and with three users who can decide.
 * `refund` needs one approval, `two` needs two, `quick` needs one within a minute, `boss` needs one
 * by an admin, and `often` may be granted three times.
 */
export async function startApprovalDesk(options: TestServicesOptions = {}) {
  const gateway: Gateway = await startGateway(options);
  const agentId = await gateway.agent();
  const anna = await gateway.as({ role: 'approver', principal: 'anna' });
  const ben = await gateway.as({ role: 'approver', principal: 'ben' });
  const admin = await gateway.as({ role: 'admin', principal: 'adam' });
  const bot = await gateway.as({ role: 'agent', principal: 'bot-key' });
  await gateway.publish(
    rule('require_approval', 'refund'),
    rule('require_approval', 'two', { approval: { quorum: 2 } }),
    rule('require_approval', 'quick', { approval: { sla_seconds: 60 } }),
    rule('require_approval', 'boss', { approval: { min_role: 'admin' } }),
    rule('require_approval', 'typed'),
    rule('require_approval', 'often', {
      approval: { grant: { max_uses: 3, max_ttl_seconds: 3600, scope: 'tool' } },
    }),
  );
  let resources = 0;
  const action = (more: Asked = {}) => {
    resources += 1;
    return {
      tool: 'refund',
      resource: `payment:${resources}`,
      args: { amount: 40 } as JsonObject,
      agent_id: agentId,
      user_id: 'user-1',
      ...more,
    };
  };
  return {
    gateway,
    agentId,
    anna,
    ben,
    admin,
    /** The client that requests actions for the agent; it cannot decide on its own requests. */
    bot,
    /** Returns an action that has not been requested yet. */
    action,
    /** Requests an action that needs approval; returns the action and the approval's id. */
    async request(more: Asked = {}) {
      const asked = action(more);
      const answer = await bot.call(preflight, { body: asked });
      return { asked, id: Number(answer.approval_request_id), answer };
    },
    decide: async (id: number, body: Act, client: Client = anna) =>
      client.call(decideApproval, { params: { id }, body: body as never }),
    /**
     * Issues a passport for the agent and its user. The passport is bound to an approval unless
     * `approval_hash` is null.
     */
    async passport(approval_hash: string | null) {
      const issued = await gateway.owner.call(issuePassport, {
        body: {
          tenant_id: 'default',
          agent_id: agentId,
          user_id: 'user-1',
          goal: 'Work',
          allowed_tools: ['**'],
          risk_tier: 'low',
          policy_id: 'p1',
          approval_hash,
          audience: 'gateway://agents',
          ttl_seconds: 300,
        },
      });
      return issued.passport;
    },
    stored: (id: number) => gateway.services.db.approval.findUniqueOrThrow({ where: { id } }),
    close: () => gateway.close(),
  };
}

export type ApprovalDesk = Awaited<ReturnType<typeof startApprovalDesk>>;

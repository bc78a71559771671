import type { JsonObject } from '../../../shared/base/json.ts';
import { executeAction } from '../../../shared/contract/actions.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { storeCredential } from '../../../shared/contract/credentials.ts';
import { certificateFor } from '../../proxy/upstream/upstream-tls-stage.ts';
import { rule, startGateway } from '../../support/control-plane/gateway.ts';
import type { TestServicesOptions } from '../../support/control-plane/services.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';

export const secret = 'sk_live_4f9c2d7e81ab';

/** A gateway whose tool `pay` is forwarded to an upstream over TLS, with a credential bound to it. */
export async function executeStage({ env, upstream: given, ...options }: TestServicesOptions = {}) {
  const identity = certificateFor('localhost');
  const upstream = await startUpstream({ tls: identity });
  const gateway = await startGateway({
    ...options,
    env: { SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128', ...env },
    upstream: { ...given, ca: [identity.ca, ...(given?.ca ?? [])] },
  });
  const { owner, services } = gateway;
  const agentId = await gateway.agent();
  await gateway.publish(
    rule('allow', 'pay'),
    rule('allow', 'other'),
    rule('deny', 'shell'),
    rule('require_approval', 'refund'),
  );
  const key = await gateway.api.key({ role: 'gateway', scope: 'gateway', principal: 'relay' });
  const client = await gateway.api.client(key);
  const host = `localhost:${upstream.port}`;
  const bind = (tool: string, more: JsonObject = {}) =>
    owner.call(putBinding, {
      params: { name: tool },
      body: {
        protocol: 'http',
        host: `${tool}.example`,
        method: 'POST',
        path: '/',
        tool,
        resource: 'invoice:{invoice}',
        upstream: { url: `https://${host}/invoices/{invoice}/pay`, method: 'POST' },
        ...more,
      } as never,
    });
  for (const tool of ['pay', 'refund', 'shell']) await bind(tool);
  await owner.call(storeCredential, {
    body: {
      name: 'bank',
      secret,
      inject: { in: 'bearer' },
      bind: { tools: ['pay', 'refund'], hosts: [host] },
    },
  });
  const action = (more: JsonObject = {}) => ({
    tool: 'pay',
    resource: 'invoice:7',
    args: { invoice: '7', amount: 40 },
    agent_id: agentId,
    user_id: 'user-1',
    ...more,
  });
  const eventById = async (eventId: string) => {
    const row = await services.db.evidenceRow.findUniqueOrThrow({
      where: { tenantId_eventId: { tenantId: 'default', eventId } },
    });
    return JSON.parse(row.canonical) as Record<string, unknown> & { data: JsonObject };
  };
  return {
    gateway,
    services,
    upstream,
    host,
    agentId,
    key,
    bind,
    action,
    eventById,
    run: (more: JsonObject = {}) => client.call(executeAction, { body: action(more) as never }),
    send: (more: JsonObject = {}) => gateway.post('/v1/actions/execute', action(more), key),
    close: async () => {
      await gateway.close();
      await upstream.close();
    },
  };
}

import { expect, it } from 'vitest';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';

it.each(['dev', 'prod'] as const)('policies use the configured environment: %s', async (set) => {
  const gateway: Gateway = await startGateway({ env: { SALLYPORT_ENVIRONMENT: set } });
  try {
    const when = { all: [{ path: 'environment', operator: '==', value: 'dev' }] };
    await gateway.publish(rule('allow', 'pay', { when }));
    const body = { tool: 'pay', resource: 'r', agent_id: await gateway.agent(), user_id: 'u' };
    const { body: answer } = await gateway.post('/v1/actions/preflight', body);
    expect(answer?.decision).toBe(set === 'dev' ? 'allow' : 'deny');
  } finally {
    await gateway.close();
  }
});

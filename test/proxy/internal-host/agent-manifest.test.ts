import { afterEach, beforeEach, expect, it } from 'vitest';
import { agentManifest } from '../../../proxy/internal-host/agent-manifest.ts';
import { UsageCounter } from '../../../proxy/replica/usage-counter.ts';
import { sidecarId } from '../../support/sidecar/published-tenant.ts';
import { type ReplicaStage, replicaStage } from '../replica/replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
});
afterEach(() => stage.end());

it('the manifest lists only tools within the capabilities of the agent', async () => {
  const http = { protocol: 'http', method: 'POST', path: '/x' } as const;
  const mcp = { protocol: 'mcp', path: '/mcp' } as const;
  stage.tenant.bodies.agents = {
    agents: [{ id: '1', name: 'bot', capabilities: ['pay.*', 'mcp.crm.read', 'mcp.m*'] }],
    users: [{ id: 'ann' }],
  };
  stage.tenant.bodies.bindings = {
    bindings: [
      { name: 'pay', host: 'pay.example', tool: 'pay.out', ...http },
      { name: 'hr', host: 'hr.example', tool: 'hr.fire', ...http },
      { name: 'crm', host: 'crm.example', ...mcp },
      { name: 'crm2', host: 'crm2.example', ...mcp },
      { name: 'maps', host: 'maps.example', ...mcp },
      { name: 'model', protocol: 'passthrough', host: 'model.example' },
    ],
  };
  await stage.tenant.publishAll();
  const replica = await stage.open();
  const identity = {
    sidecarId,
    tenantId: 'acme',
    agentId: '1',
    userId: 'ann',
    environment: 'prod',
  } as const;
  const usage = new UsageCounter({ clock: stage.clock, maxStalenessMs: 1 });
  const manifest = agentManifest({ replica, identity, usage });
  const named = (manifest.tools as readonly { readonly name: string }[]).map(({ name }) => name);
  expect(named).toEqual(['pay', 'crm', 'maps', 'model']);
  expect(JSON.stringify(manifest)).not.toMatch(/hr\.|crm2/);
});

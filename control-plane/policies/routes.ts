import * as contract from '../../shared/contract/policies.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { createPolicy } from './create-policy.ts';
import { deletePolicy } from './delete-policy.ts';
import { policyRecord } from './policy-record.ts';
import { getPolicy, listPolicies } from './read-policies.ts';
import { replayDefinition } from './replay-definition.ts';
import { updatePolicy } from './update-policy.ts';

export function policyRoutes(services: Services): Route[] {
  return [
    route(contract.listPolicies, async ({ query }, caller) => {
      const rows = await listPolicies(services, caller, query);
      return { body: { policies: rows.map(policyRecord) } };
    }),
    route(contract.createPolicy, async ({ body }, caller) => {
      const { name, rules_json, publish } = body;
      const row = await createPolicy(services, caller, { name, rules: rules_json, publish });
      return { body: policyRecord(row) };
    }),
    route(contract.getPolicy, async ({ params }, caller) => ({
      body: policyRecord(await getPolicy(services, caller, params.id)),
    })),
    route(contract.updatePolicy, async ({ params, body }, caller) => {
      const { name, rules_json, lifecycle } = body;
      const change = { name, rules: rules_json, lifecycle };
      return {
        body: policyRecord(await updatePolicy(services, caller, { id: params.id, change })),
      };
    }),
    route(contract.deletePolicy, async ({ params }, caller) => {
      const outcome = await deletePolicy(services, caller, params.id);
      return { body: { id: params.id, outcome } };
    }),
    route(contract.replayPolicy, async ({ body }) => ({ body: replayDefinition(body) })),
  ];
}

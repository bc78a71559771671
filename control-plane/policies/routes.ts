import * as contract from '../../shared/contract/policies/policies.ts';
import { lintPolicySet, lintStoredPolicies } from '../../shared/contract/policies/policy-lint.ts';
import { installPolicyPack, listPolicyPacks } from '../../shared/contract/policies/policy-packs.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { createPolicy, versionPolicy } from './create-policy.ts';
import { deletePolicy } from './delete-policy.ts';
import { policyTag } from './expected-policy.ts';
import { installPack } from './install-pack.ts';
import { lintCandidates, lintStored, policyWarnings } from './lint-policies.ts';
import { loadPacks } from './load-packs.ts';
import { policyRecord } from './policy-record.ts';
import { getPolicy, listPolicies } from './read-policies.ts';
import { replayDefinition } from './replay-definition.ts';
import { updatePolicy } from './update-policy.ts';

export function policyRoutes(services: Services): Route[] {
  return [...lintRoutes(services), ...packRoutes(services), ...storedPolicyRoutes(services)];
}

function lintRoutes(services: Services): Route[] {
  return [
    route(lintStoredPolicies, async ({ query }, caller) => ({
      body: await lintStored(services, caller, query.lifecycle),
    })),
    route(lintPolicySet, async ({ body }, caller) => ({
      body: await lintCandidates(services, caller, body),
    })),
  ];
}

function packRoutes(services: Services): Route[] {
  return [
    route(listPolicyPacks, async () => {
      const packs = (await loadPacks()).map(({ policies, ...pack }) => ({
        ...pack,
        policies: policies.map(({ definition, hash }) => ({
          definition_id: definition.id,
          policy_hash: hash,
          rules: definition.rules.length,
        })),
      }));
      return { body: { packs } };
    }),
    route(installPolicyPack, async ({ body }, caller) => {
      const installed = await installPack(services, caller, body);
      const created = installed.some(({ outcome }) => outcome === 'created');
      const policies = installed.map(({ outcome, row }) => ({
        outcome,
        policy: policyRecord(row),
      }));
      return { status: created ? 201 : 200, body: { pack: body.pack, policies } };
    }),
  ];
}

function tagged(row: Policy) {
  return { headers: { etag: policyTag(row) }, body: policyRecord(row) };
}

async function warned(services: Services, row: Policy) {
  const { headers, body } = tagged(row);
  return { headers, body: { ...body, ...(await policyWarnings(services, row)) } };
}

function storedPolicyRoutes(services: Services): Route[] {
  return [
    route(contract.listPolicies, async ({ query }, caller) => {
      const rows = await listPolicies(services, caller, query);
      return { body: { policies: rows.map(policyRecord) } };
    }),
    route(contract.createPolicy, async ({ body }, caller) => {
      const { name, rules_json, publish } = body;
      const row = await createPolicy(services, caller, { name, rules: rules_json, publish });
      return warned(services, row);
    }),
    route(contract.getPolicy, async ({ params }, caller) =>
      tagged(await getPolicy(services, caller, params.id)),
    ),
    route(contract.updatePolicy, async ({ params, body }, caller, { headers }) => {
      const { name, rules_json, lifecycle, expected_policy_hash: hash } = body;
      const expected = { hash, ifMatch: headers['if-match'] };
      const change = { name, rules: rules_json, lifecycle, expected };
      return warned(services, await updatePolicy(services, caller, { id: params.id, change }));
    }),
    route(contract.deletePolicy, async ({ params }, caller) => {
      const outcome = await deletePolicy(services, caller, params.id);
      return { body: { id: params.id, outcome } };
    }),
    route(contract.versionPolicy, async ({ params }, caller) => ({
      body: policyRecord(await versionPolicy(services, caller, params.id)),
    })),
    route(contract.replayPolicy, async ({ body }) => ({ body: await replayDefinition(body) })),
  ];
}

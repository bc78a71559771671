import { z } from 'zod';
import { environments } from '../vocabulary/action.ts';
import { agentId, name, userId } from './base/fields.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';

const shared = { tag: 'Sidecars', auth: 'bearer' } as const;

const nameParam = z.object({
  name: z
    .string()
    .regex(/^[0-9A-Za-z][0-9A-Za-z_.-]{0,99}$/, 'is not a name: letters, digits, _ . -'),
});

/** Audience that a workload token must have if its rule names no other one. */
export const workloadAudience = 'sallyport';

const environment = z.enum(environments);
const namespace = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'is not the name of a Kubernetes namespace');
const serviceAccount = z
  .string()
  .regex(
    /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/,
    'is not the name of a Kubernetes service account',
  );

const ruleBody = z.strictObject({
  /** Exactly the `iss` of the cluster's tokens; the operator configures it in `SALLYPORT_OIDC_ISSUERS`. */
  issuer: line(500),
  /** The token's audience. The token must have no other audience. */
  audience: line(200).default(workloadAudience),
  namespace,
  service_account: serviceAccount,
  agent_id: agentId,
  user_id: userId,
  environment: environment.default('prod'),
});

const ruleRecord = z.object({
  name: z.string(),
  issuer: z.string(),
  audience: z.string(),
  namespace: z.string(),
  service_account: z.string(),
  agent_id: z.string(),
  user_id: z.string(),
  environment,
  written_by: z.string(),
  written_at: z.string(),
});
named('EnrolmentRule', ruleRecord);
export type EnrolmentRuleRecord = z.output<typeof ruleRecord>;

const bodyExample = {
  issuer: 'https://kubernetes.default.svc.cluster.local',
  namespace: 'billing',
  service_account: 'refund-agent',
  agent_id: '7',
  user_id: 'user_12',
  environment: 'prod',
} as const;

export const enrolmentRuleExample = {
  name: 'refunds',
  ...bodyExample,
  audience: workloadAudience,
  written_by: 'alice',
  written_at: '2026-11-20T09:00:00.000Z',
};

export const listEnrolmentRules = operation({
  ...shared,
  id: 'listEnrolmentRules',
  method: 'GET',
  path: '/v1/sidecars/enrolment-rules',
  summary: 'List enrolment rules',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every enrolment rule, by name.',
    schema: z.object({ rules: z.array(ruleRecord) }),
    example: { rules: [enrolmentRuleExample] },
  },
  errors: [],
});

export const getEnrolmentRule = operation({
  ...shared,
  id: 'getEnrolmentRule',
  method: 'GET',
  path: '/v1/sidecars/enrolment-rules/{name}',
  summary: 'Get an enrolment rule',
  permission: 'read',
  params: nameParam,
  success: {
    status: 200,
    description: 'The rule.',
    schema: ruleRecord,
    example: enrolmentRuleExample,
  },
  errors: ['enrolment_rule.not_found'],
});

export const putEnrolmentRule = operation({
  ...shared,
  id: 'putEnrolmentRule',
  method: 'PUT',
  path: '/v1/sidecars/enrolment-rules/{name}',
  summary: 'Create or replace an enrolment rule',
  description:
    'Sidecars in pods of this service account enrol as this agent, user and environment, with a projected service account token. Every field is compared exactly. A service account has at most one rule. If the rule changes, the sidecars that it enrolled are revoked, and enrol again under the new rule. Only an owner can name a user who has an owner’s key.',
  permission: 'sidecar.enrol',
  params: nameParam,
  body: ruleBody,
  bodyExample,
  success: {
    status: 200,
    description: 'The stored rule, and what its sidecars can reach.',
    schema: ruleRecord.extend({
      /** The tools that the agent may call now. Its sidecars receive the credentials of these tools. */
      capabilities: z.array(z.string()),
      /**
       * Number of sidecars that are revoked because they enrolled under other terms. In a large
       * fleet, some of them are revoked shortly after the response.
       */
      revoked_sidecars: z.number().int(),
    }),
    example: { ...enrolmentRuleExample, capabilities: ['payments.refund'], revoked_sidecars: 0 },
  },
  errors: [
    'args.schema_invalid',
    'agent.not_found',
    'agent.disabled',
    'agent.mismatch',
    'sidecar.grant_exceeds_own',
    'enrolment_rule.issuer_unknown',
    'enrolment_rule.overlap',
  ],
  accessExample: 'own-name',
});

export const deleteEnrolmentRule = operation({
  ...shared,
  id: 'deleteEnrolmentRule',
  method: 'DELETE',
  path: '/v1/sidecars/enrolment-rules/{name}',
  summary: 'Delete an enrolment rule and revoke the sidecars that it enrolled',
  permission: 'sidecar.enrol',
  budget: 'control',
  params: nameParam,
  success: {
    status: 200,
    description: 'Deleted.',
    schema: z.object({
      name: name(100),
      deleted: z.literal(true),
      revoked_sidecars: z.number().int(),
    }),
    example: { name: 'refunds', deleted: true, revoked_sidecars: 2 },
  },
  errors: ['enrolment_rule.not_found', 'agent.mismatch'],
});

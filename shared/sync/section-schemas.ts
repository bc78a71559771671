import { z } from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { Binding, BindingUpstream } from '../binding/binding.ts';
import { type PublicJwk, publicJwk } from '../crypto/signing-key.ts';
import type { AgentRecord, DirectoryUser, KillSwitch } from '../decision/state.ts';
import type { ArgumentsSetting } from '../ledger/privacy/arguments-setting.ts';
import {
  operators,
  type PolicyCondition,
  type PolicyDefinition,
  type PolicyRule,
  type RuleApproval,
  ruleDecisions,
} from '../policy/language/definition.ts';
import type { PublishedPolicy } from '../policy/language/published-policy.ts';
import { modes, riskTiers } from '../vocabulary/action.ts';
import type { Deciders } from '../vocabulary/deciders.ts';
import { grantScopes, type RuleGrant, type StandingGrant } from '../vocabulary/grant-terms.ts';
import { approvalStatuses } from '../vocabulary/tool-record.ts';
import type {
  DeliveredApproval,
  Heartbeat,
  PublishedTool,
  SectionBodies,
  SidecarSectionBody,
} from './sections.ts';

/**
 * Schemas of the sections. Unknown fields are refused, not dropped: they may carry a restriction
 * that this program would not enforce. A refused section results in denial.
 */

/**
 * Returns the schema of an object with exactly the fields of `Shape`; a missing field is a compile
 * error. The cast is safe, because the mapped type checks each field's type.
 */
function exactly<Shape>(
  fields: {
    readonly [Name in keyof Required<Shape>]: z.ZodType<Shape[Name]>;
  },
): z.ZodType<Shape> {
  return z.strictObject(fields) as z.ZodType as z.ZodType<Shape>;
}

const id = z.string().min(1);
const count = z.number().int().nonnegative();
const timeMs = z.number().int();
// The text was just parsed as JSON, so checking for an object is enough.
const jsonObject = z.custom<JsonObject>(isJsonObject);
const jsonValue = z.custom<JsonValue>((value) => value !== undefined);

const condition = exactly<PolicyCondition>({
  path: z.string(),
  operator: z.enum(operators),
  value: jsonValue,
});

const definition = exactly<PolicyDefinition>({
  id,
  version: z.number(),
  description: z.string().optional(),
  mode: z.enum(modes).optional(),
  applies_to: z
    .strictObject({
      tools: z.array(z.string()).optional(),
      agents: z.array(z.string()).optional(),
    })
    .optional(),
  rules: z.array(
    exactly<PolicyRule>({
      name: z.string(),
      decision: z.enum(ruleDecisions),
      reason: z.string(),
      approval: exactly<RuleApproval>({
        channel: z.string().optional(),
        min_role: z.string().optional(),
        quorum: z.number().optional(),
        sla_seconds: z.number().optional(),
        grant: exactly<RuleGrant>({
          max_uses: z.number().optional(),
          max_ttl_seconds: z.number().optional(),
          scope: z.enum(grantScopes).optional(),
        }).optional(),
      }).optional(),
      when: z.union([
        z.strictObject({ all: z.array(condition) }),
        z.strictObject({ any: z.array(condition) }),
      ]),
    }),
  ),
});

const policy = exactly<PublishedPolicy>({
  id: z.number().int(),
  hash: z.string(),
  definition,
});

const tool = exactly<PublishedTool>({
  name: id,
  manifestHash: z.string(),
  approvedHash: z.string().optional(),
  approvedSurfaceHash: z.string().optional(),
  approvedFormHash: z.string().optional(),
  approvalStatus: z.enum(approvalStatuses),
  riskTier: z.enum(riskTiers),
  driftReason: z.string().optional(),
  inputSchema: jsonObject.optional(),
});

const agent = exactly<AgentRecord>({
  id,
  name: z.string(),
  goal: z.string().optional(),
  capabilities: z.array(z.string()),
});

const user = exactly<DirectoryUser>({
  id,
  email: z.string().optional(),
  role: z.string().optional(),
});

const bindingSchema = exactly<Binding>({
  name: id,
  tool: z.string().optional(),
  protocol: z.enum(['http', 'mcp', 'passthrough']),
  host: id,
  method: z.string().optional(),
  path: z.string().optional(),
  body: z.enum(['json', 'form', 'none']).optional(),
  resource: z.string().optional(),
  headers: z.array(z.string()).optional(),
  upgrade: z.boolean().optional(),
  list_actions: z.boolean().optional(),
  upstream: exactly<BindingUpstream>({
    url: z.string(),
    method: z.string(),
    headers: z.record(z.string(), z.string()).optional(),
  }).optional(),
});

const killSwitch = exactly<KillSwitch>({
  id,
  kind: z.enum(['block_tool', 'block_agent', 'force_mode']),
  tool: z.string().optional(),
  agentId: z.string().optional(),
  mode: z.enum(modes).optional(),
  reason: z.string(),
  expiresAtMs: timeMs.optional(),
});

export const jwkSchema = exactly<PublicJwk>(publicJwk.shape);

const approval = exactly<DeliveredApproval>({
  id: z.number().int(),
  actionDigest: z.string(),
  status: z.enum(['pending', 'approved', 'modified', 'denied', 'expired']),
  expiresAtMs: timeMs,
  eventHash: z.string().optional(),
  effectiveDigest: z.string().optional(),
  effectiveArgs: jsonObject.optional(),
  passport: z.string().optional(),
  used: z.boolean().optional(),
  deciders: exactly<Deciders>({ role: z.string(), count }).optional(),
  comment: z.string().optional(),
  grant: exactly<StandingGrant>({
    uses: count,
    scope: z.enum(grantScopes),
    ttlSeconds: count,
    agentId: id,
    userId: z.string(),
    tool: id,
    manifestHash: z.string().nullable(),
    minRole: z.string(),
    quorum: count,
  }).optional(),
});

export const tenantSectionSchemas: {
  readonly [Name in keyof SectionBodies]: z.ZodType<SectionBodies[Name]>;
} = {
  tenant: exactly<SectionBodies['tenant']>({
    id,
    name: z.string(),
    mode: z.enum(modes),
    credentialsVersion: count.optional(),
    evidence: exactly<ArgumentsSetting>({
      keep: z.enum(['digest', 'redacted']),
      sensitiveFields: z.array(z.string()),
    }).optional(),
  }),
  policies: exactly<SectionBodies['policies']>({ policies: z.array(policy) }),
  tools: exactly<SectionBodies['tools']>({ tools: z.array(tool) }),
  agents: exactly<SectionBodies['agents']>({ agents: z.array(agent), users: z.array(user) }),
  bindings: exactly<SectionBodies['bindings']>({ bindings: z.array(bindingSchema) }),
  kill_switches: exactly<SectionBodies['kill_switches']>({ killSwitches: z.array(killSwitch) }),
  revocations: exactly<SectionBodies['revocations']>({
    jtis: z.array(z.string()),
    agentIds: z.array(z.string()),
    sidecarIds: z.array(z.string()),
  }),
  keys: exactly<SectionBodies['keys']>({ passportKeys: z.array(jwkSchema) }),
};

export const sidecarSectionSchema = exactly<SidecarSectionBody>({
  lease: z.string().optional(),
  approvals: z.array(approval),
  credentialsVersion: count,
});

export const envelopeSchema = z.strictObject({
  tenant: id,
  section: id,
  version: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  body: jsonObject,
});

export const heartbeatSchema = exactly<Heartbeat>({
  tenant: id,
  sequence: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  time: timeMs,
  sections: z.record(
    z.string(),
    z.strictObject({ version: z.number().int().min(1), digest: z.string() }),
  ),
});

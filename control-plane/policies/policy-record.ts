import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { finish, type Steps } from '../../shared/base/steps.ts';
import type { PolicyLifecycle, PolicyRecord } from '../../shared/contract/policies/policies.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Unverified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { readTextColumn } from '../platform/store/read-column.ts';

/**
 * Accepts a damaged definition and shows it as stored, so that an operator sees what to replace.
 */
const jsonForm = z.custom<JsonObject>(isJsonObject);

/** A stored policy as the API shows it. */
export function policyRecord(row: Policy): PolicyRecord {
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    lifecycle: row.lifecycle as PolicyLifecycle,
    policy_hash: row.policyHash,
    definition_id: row.definitionId,
    rules_json: readTextColumn(jsonForm, row.definition, 'policy.definition'),
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    published_at: row.publishedAt?.toISOString(),
    published_by: row.publishedBy ?? undefined,
    archived_at: row.archivedAt?.toISOString(),
    cloned_from: row.clonedFrom ?? undefined,
  };
}

/** Throws if the caller lacks the permission to publish a policy or to archive a published one. */
export function assertMayPublish({ permissions }: Caller): void {
  if (permissions.has('policy.publish')) return;
  throw new GatewayError('auth.insufficient_permission', {
    message: 'The API key lacks the permission policy.publish.',
    details: { scope: 'policy.publish' },
  });
}

/** Reads a tenant's policy and locks it until the transaction ends. */
export async function lockPolicy(
  notes: ChangeNotes,
  tenantId: string,
  id: number,
): Promise<Unverified<Policy>> {
  const policies = notes.rows('policy');
  await policies.lock({ tenantId, id });
  const row = await policies.findUniqueUnverified({ where: { tenantId_id: { tenantId, id } } });
  if (row === null) throw new GatewayError('policy.not_found');
  return row;
}

export function lifecycleInvalid(
  row: Policy,
  wish: string,
  instead = `POST /v1/policies/${row.id}/versions creates a draft of it`,
): GatewayError {
  return new GatewayError('policy.lifecycle_invalid', {
    message: `Policy ${row.id} is ${row.lifecycle}: it cannot be ${wish}. ${instead}.`,
  });
}

/** Parses the definition of a stored policy. An invalid text was not stored by this system. */
export function storedDefinition(text: string): PolicyDefinition {
  return finish(storedDefinitionInSteps(text));
}

/** Like `storedDefinition`, but parses one rule per step. */
export function* storedDefinitionInSteps(text: string): Steps<PolicyDefinition> {
  try {
    return yield* parsePolicyInSteps(text);
  } catch (cause) {
    throw new GatewayError('integrity.forged_row', { cause });
  }
}

import { parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import { modes, riskTiers } from '../../shared/decision/action.ts';
import type { KillSwitch } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors.ts';
import { isJsonObject, type JsonValue } from '../../shared/json.ts';
import { formHash } from '../../shared/manifest/hash.ts';
import { approvalStatuses } from '../../shared/manifest/tool-record.ts';
import type { PolicyDefinition } from '../../shared/policy/definition.ts';
import type { PublishedTool, SectionBodies } from '../../shared/sync/sections.ts';
import { bindingOf } from '../runtime/stored-binding.ts';
import type { Transaction, Vault } from '../services.ts';
import { tenantCredentialsVersion } from '../sidecars/credentials-version.ts';
import type { KillSwitchModel } from '../store/generated/models/KillSwitch.ts';

export interface BuildContext {
  /** A transaction with one view of the database: version and data belong together. */
  readonly tx: Transaction;
  readonly tenantId: string;
  readonly nowMs: number;
  readonly vault: Vault;
}

const killSwitchKinds = ['block_tool', 'block_agent', 'force_mode'] as const;

/** A revocation whose passport's expiry is not known is kept longer than any passport lives. */
const unknownExpiryMs = 25 * 3_600_000;

/** How each section is read from the database. Throws when something stored cannot be believed. */
export const builders: {
  readonly [Name in keyof SectionBodies]: (context: BuildContext) => Promise<SectionBodies[Name]>;
} = {
  async tenant({ tx, tenantId }) {
    const { id, name, mode } = await tx.tenant.findUniqueOrThrow({ where: { id: tenantId } });
    return {
      ...{ id, name, mode: oneOf(modes, mode, 'tenant.mode') },
      credentialsVersion: await tenantCredentialsVersion(tx, tenantId),
    };
  },

  async policies({ tx, tenantId }) {
    const rows = await tx.policy.findMany({
      where: { tenantId, lifecycle: 'published' },
      orderBy: { id: 'asc' },
      select: { id: true, policyHash: true, definition: true },
    });
    const policies = rows.map(({ id, policyHash: hash, definition }) => ({
      id,
      hash,
      // The replica's compiler checks form and hash before anything runs.
      definition: JSON.parse(definition) as PolicyDefinition,
    }));
    return { policies };
  },

  async tools({ tx, tenantId }) {
    const rows = await tx.$queryRaw<ToolRow[]>`
      select t.name, t.manifest_hash, t.approved_hash, t.approval_status, t.risk_tier,
             t.drift_reason, v.surface_hash, v.manifest
      from tool t
      left join tool_version v
        on v.tenant_id = t.tenant_id and v.name = t.name and v.hash = t.approved_hash
      where t.tenant_id = ${tenantId}
      order by t.name`;
    return { tools: rows.map(publishedTool) };
  },

  async agents({ tx, tenantId }) {
    const agents = await tx.agent.findMany({
      where: { tenantId, disabledAt: null },
      orderBy: { id: 'asc' },
      select: { id: true, name: true, goal: true, capabilities: true },
    });
    const users = await tx.directoryUser.findMany({
      where: { tenantId },
      orderBy: { id: 'asc' },
      select: { id: true, email: true, role: true },
    });
    return {
      agents: agents.map(({ id, name, goal, capabilities }) => ({
        id: String(id),
        name,
        capabilities,
        ...given({ goal }),
      })),
      users: users.map(({ id, email, role }) => ({ id, ...given({ email, role }) })),
    };
  },

  async bindings({ tx, tenantId, vault }) {
    const rows = await tx.binding.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
    const bindings = rows.map((row) => {
      const binding = bindingOf(row, vault);
      // Left out, its host would count as unbound and more would be reachable, not less.
      if (binding === undefined)
        throw invalid(`binding ${row.name} was not written by this system`);
      return binding;
    });
    return { bindings };
  },

  async kill_switches({ tx, tenantId, nowMs }) {
    const rows = await tx.killSwitch.findMany({
      where: {
        tenantId,
        disarmedAt: null,
        OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
      },
      orderBy: { id: 'asc' },
    });
    return { killSwitches: rows.map(killSwitchOf) };
  },

  async revocations({ tx, tenantId, nowMs }) {
    const revoked = await tx.passportRevocation.findMany({
      where: {
        tenantId,
        OR: [
          { expiresAt: { gt: new Date(nowMs) } },
          { expiresAt: null, revokedAt: { gt: new Date(nowMs - unknownExpiryMs) } },
        ],
      },
      orderBy: { jti: 'asc' },
      select: { jti: true },
    });
    const agents = await tx.agent.findMany({
      where: { tenantId, disabledAt: { not: null } },
      orderBy: { id: 'asc' },
      select: { id: true },
    });
    const sidecars = await tx.sidecar.findMany({
      where: { tenantId, revokedAt: { not: null } },
      orderBy: { id: 'asc' },
      select: { id: true },
    });
    return {
      jtis: revoked.map(({ jti }) => jti),
      agentIds: agents.map(({ id }) => String(id)),
      sidecarIds: sidecars.map(({ id }) => id),
    };
  },

  async keys({ tx, tenantId, nowMs }) {
    const rows = await tx.signingKey.findMany({
      where: {
        tenantId,
        purpose: 'passport',
        // A retired key stays until no passport that it signed can be valid.
        OR: [{ state: 'active' }, { retiredAt: { gt: new Date(nowMs - unknownExpiryMs) } }],
      },
      orderBy: [{ state: 'asc' }, { createdAt: 'desc' }],
      select: { publicJwk: true },
    });
    return { passportKeys: rows.map(({ publicJwk }) => parsePublicJwk(publicJwk)) };
  },
};

function killSwitchOf(row: KillSwitchModel): KillSwitch {
  const { id, tool, agentId, mode, reason, expiresAt } = row;
  const kind = oneOf(killSwitchKinds, row.kind, 'kill_switch.kind');
  return {
    id,
    kind,
    reason,
    ...given({ tool, agentId }),
    // A forced mode that cannot be read forces the strictest.
    ...(kind === 'force_mode' ? { mode: modes.find((known) => known === mode) ?? 'strict' } : {}),
    ...(expiresAt === null ? {} : { expiresAtMs: expiresAt.getTime() }),
  };
}

interface ToolRow {
  readonly name: string;
  readonly manifest_hash: string;
  readonly approved_hash: string | null;
  readonly approval_status: string;
  readonly risk_tier: string;
  readonly drift_reason: string | null;
  readonly surface_hash: string | null;
  readonly manifest: string | null;
}

function publishedTool(row: ToolRow): PublishedTool {
  const approved = row.approved_hash !== null;
  if (approved && row.manifest === null)
    throw invalid(`the approved manifest of ${row.name} is gone`);
  const manifest: JsonValue = row.manifest === null ? {} : JSON.parse(row.manifest);
  const inputSchema = isJsonObject(manifest) ? manifest.inputSchema : undefined;
  const approvedFormHash = isJsonObject(manifest) && approved ? formHash(manifest) : undefined;
  return {
    name: row.name,
    manifestHash: row.manifest_hash,
    // What cannot be read is taken for the worst.
    approvalStatus:
      approvalStatuses.find((known) => known === row.approval_status) ?? 'reapproval_required',
    riskTier: riskTiers.find((known) => known === row.risk_tier) ?? 'critical',
    ...given({
      approvedHash: row.approved_hash,
      approvedSurfaceHash: row.surface_hash,
      driftReason: row.drift_reason,
    }),
    ...(approvedFormHash === undefined ? {} : { approvedFormHash }),
    ...(isJsonObject(inputSchema) ? { inputSchema } : {}),
  };
}

/** Nulls of the database are fields that are not there. */
function given<Fields extends Readonly<Record<string, string | null>>>(
  fields: Fields,
): { [Name in keyof Fields]?: string } {
  const there = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(there) as { [Name in keyof Fields]?: string };
}

function oneOf<Word extends string>(words: readonly Word[], word: string, what: string): Word {
  const known = words.find((candidate) => candidate === word);
  if (known === undefined) throw invalid(`${what} is ${word}`);
  return known;
}

function invalid(what: string): GatewayError {
  return new GatewayError('internal.unexpected', { cause: new Error(what) });
}

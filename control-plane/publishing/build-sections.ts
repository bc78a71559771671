import { isJsonObject } from '../../shared/base/json.ts';
import { parsePublicJwk } from '../../shared/crypto/signing-key.ts';
import type { KillSwitch } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { formHash, surfaceHash } from '../../shared/manifest/hash.ts';
import type { PublishedPolicy } from '../../shared/policy/language/published-policy.ts';
import type { PublishedTool, SectionBodies } from '../../shared/sync/sections.ts';
import { modes, riskTiers } from '../../shared/vocabulary/action.ts';
import { approvalStatuses } from '../../shared/vocabulary/tool-record.ts';
import { bindingForgery, bindingOf } from '../bindings/stored-binding.ts';
import { keptArguments } from '../ledger/privacy/arguments-setting.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { signedJson } from '../platform/integrity/signed-json.ts';
import { pauser } from '../platform/scheduling/pauser.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import {
  claimsOf,
  type Unverified,
  type Verified,
  validRow,
} from '../platform/signed-store/verified.ts';
import { type KillSwitch as KillSwitchRow, Prisma } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import type { Vault } from '../platform/vault/vault.ts';
import { storedDefinition } from '../policies/policy-record.ts';
import { manifestOf } from '../records/stored-manifest.ts';
import type { StoredTool } from '../records/tool-record.ts';
import { tenantCredentialsVersion } from '../sidecars/credentials-version.ts';

export interface BuildContext {
  /** A transaction that reads from a single snapshot, so that the versions match the data. */
  readonly tx: Transaction;
  readonly tenantId: string;
  readonly nowMs: number;
  readonly vault: Vault;
  readonly guard: RowGuard;
}

const killSwitchKinds = ['block_tool', 'block_agent', 'force_mode'] as const;

/**
 * How long a revocation is kept if the passport's expiry is unknown: longer than the maximum
 * lifetime of a passport.
 */
const unknownExpiryMs = 25 * 3_600_000;

/** Builds each section from the database. Throws if a stored row cannot be trusted. */
export const builders: {
  readonly [Name in keyof SectionBodies]: (context: BuildContext) => Promise<SectionBodies[Name]>;
} = {
  async tenant({ tx, tenantId, guard }) {
    const tenants = signedRows({ db: tx, guard }, 'tenant');
    const { id, name, mode } = await tenants.findExisting({ where: { id: tenantId } });
    const evidence = await keptArguments(tx, tenantId);
    return {
      id,
      name,
      mode: oneOf(modes, mode, 'tenant.mode'),
      credentialsVersion: await tenantCredentialsVersion(tx, tenantId),
      // Omits the field if nothing is stored, because older sidecars reject unknown fields.
      ...(evidence === undefined ? {} : { evidence }),
    };
  },

  async policies({ tx, tenantId, guard }) {
    const rows = await signedRows({ db: tx, guard }, 'policy').findMany({
      where: { tenantId, lifecycle: 'published' },
      orderBy: { id: 'asc' },
    });
    const pause = pauser();
    const policies: PublishedPolicy[] = [];
    for (const { id, policyHash: hash, definition } of rows) {
      // The sidecar's compiler checks the hash before it runs a policy.
      policies.push({ id, hash, definition: storedDefinition(definition) });
      await pause();
    }
    return { policies };
  },

  async tools({ tx, tenantId, guard }) {
    const rows = await tx.$queryRaw<{ readonly tool: Unverified<StoredTool> }[]>`
      select ${toolJson} as tool
      from tool t
      left join tool_version v
        on v.tenant_id = t.tenant_id and v.name = t.name and v.hash = t.approved_hash
      where t.tenant_id = ${tenantId}
      order by t.name`;
    return { tools: rows.map(({ tool }) => publishedTool(tool, guard)) };
  },

  async agents({ tx, tenantId, guard }) {
    // Omits forged agents and users, which denies access: unknown agents are refused, and unknown
    // users have no role.
    const agents = await signedRows({ db: tx, guard }, 'agent').findValid({
      where: { tenantId, disabledAt: null },
      orderBy: { id: 'asc' },
    });
    const users = await signedRows({ db: tx, guard }, 'directory_user').findValid({
      where: { tenantId },
      orderBy: { id: 'asc' },
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

  async bindings({ tx, tenantId, vault, guard }) {
    const rows = await tx.binding.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
    const bindings = rows.map((row) => {
      // Throws for a forged binding. If the binding were left out, its host would be unbound and
      // reachable.
      const binding = bindingOf(row, vault);
      if (binding === undefined) throw guard.forged(bindingForgery(row));
      return binding;
    });
    return { bindings };
  },

  async kill_switches({ tx, tenantId, nowMs, guard }) {
    const rows = await signedRows({ db: tx, guard }, 'kill_switch').findMany({
      where: {
        tenantId,
        disarmedAt: null,
        OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
      },
      orderBy: { id: 'asc' },
    });
    return { killSwitches: rows.map(killSwitchOf) };
  },

  async revocations({ tx, tenantId, nowMs, guard }) {
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
    const query = { where: { tenantId }, orderBy: { id: 'asc' } } as const;
    const agents = signedRows({ db: tx, guard }, 'agent');
    const sidecars = signedRows({ db: tx, guard }, 'sidecar');
    const allAgents = await agents.findUnverified(query);
    const allSidecars = await sidecars.findUnverified(query);
    // A forged row counts as revoked.
    const stopped = allAgents.filter(
      (row) => claimsOf(row).disabledAt !== null || !agents.isValid(row),
    );
    const revokedSidecars = allSidecars.filter(
      (row) => claimsOf(row).revokedAt !== null || !sidecars.isValid(row),
    );
    return {
      jtis: revoked.map(({ jti }) => jti),
      agentIds: stopped.map((row) => String(claimsOf(row).id)),
      sidecarIds: revokedSidecars.map((row) => claimsOf(row).id),
    };
  },

  async keys({ tx, tenantId, nowMs, guard }) {
    const rows = await signedRows({ db: tx, guard }, 'signing_key').findValid({
      where: {
        tenantId,
        purpose: 'passport',
        // Includes a retired key until every passport that it signed has expired.
        OR: [{ state: 'active' }, { retiredAt: { gt: new Date(nowMs - unknownExpiryMs) } }],
      },
      orderBy: [{ state: 'asc' }, { createdAt: 'desc' }],
    });
    return { passportKeys: rows.map(({ publicJwk }) => parsePublicJwk(publicJwk)) };
  },
};

function killSwitchOf(row: Verified<KillSwitchRow>): KillSwitch {
  const { id, tool, agentId, mode, reason, expiresAt } = row;
  const kind = oneOf(killSwitchKinds, row.kind, 'kill_switch.kind');
  return {
    id,
    kind,
    reason,
    ...given({ tool, agentId }),
    // An unreadable forced mode counts as the strictest mode.
    ...(kind === 'force_mode' ? { mode: modes.find((known) => known === mode) ?? 'strict' } : {}),
    ...(expiresAt === null ? {} : { expiresAtMs: expiresAt.getTime() }),
  };
}

const toolJson = Prisma.raw(signedJson('tool', 't', ["'approvedManifest', v.manifest"]));

function publishedTool(stored: Unverified<StoredTool>, guard: RowGuard): PublishedTool {
  const row = validRow(guard, 'tool', stored);
  // Publishes a forged row as a stopped tool. If it were left out, the tool would be unregistered,
  // and policies may allow unregistered tools.
  if (row === undefined) return stoppedTool(claimsOf(stored));
  const { name, approvedHash, approvedManifest: text } = row;
  if (approvedHash !== null && text === null)
    throw invalid(`the approved manifest of ${name} is not stored`);
  const manifest =
    approvedHash === null || text === null ? undefined : manifestOf(approvedHash, text);
  const inputSchema = manifest?.inputSchema;
  return {
    name,
    manifestHash: row.manifestHash,
    // An unreadable value counts as the most restrictive one.
    approvalStatus:
      approvalStatuses.find((known) => known === row.approvalStatus) ?? 'reapproval_required',
    riskTier: riskTiers.find((known) => known === row.riskTier) ?? 'critical',
    ...given({ approvedHash, driftReason: row.driftReason }),
    ...(manifest === undefined
      ? {}
      : { approvedSurfaceHash: surfaceHash(manifest), approvedFormHash: formHash(manifest) }),
    ...(isJsonObject(inputSchema) ? { inputSchema } : {}),
  };
}

function stoppedTool({ name, manifestHash }: StoredTool): PublishedTool {
  return { name, manifestHash, approvalStatus: 'reapproval_required', riskTier: 'critical' };
}

/** Returns the fields that are not null. */
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

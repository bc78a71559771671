import type { JsonObject } from '../../shared/base/json.ts';
import type { ToolRecord } from '../../shared/contract/tools.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { classifyDrift, type Drift, isMaterial } from '../../shared/manifest/drift.ts';
import { manifestHash } from '../../shared/manifest/hash.ts';
import { parseManifest } from '../../shared/manifest/normalise.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import { approvalStatuses } from '../../shared/vocabulary/tool-record.ts';
import { openStates } from '../approvals/open-states.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval, Tool } from '../platform/store/generated/client.ts';
import { readManifest } from '../records/stored-manifest.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard'>;

/** Returns the tenant's tools with their status, sorted by name. */
export async function listTools(
  { db, clock, guard }: Deps,
  { tenantId }: Caller,
): Promise<readonly ToolRecord[]> {
  const tools = await signedRows({ db, guard }, 'tool').findValid({
    where: { tenantId },
    orderBy: { name: 'asc' },
  });
  const versions = await db.toolVersion.findMany({
    where: { tenantId },
    select: { name: true, hash: true, ingestedBy: true },
  });
  const submitters = new Map(
    versions.map(({ name, hash, ingestedBy }) => [`${hash} ${name}`, ingestedBy]),
  );
  const where = openOnes(tenantId, clock.now());
  const open = await claimedRows(db, 'approval').findClaims(waitingColumns, { where });
  return tools.map((tool) =>
    recordOf(tool, {
      submittedBy: submitters.get(`${tool.manifestHash} ${tool.name}`) ?? '',
      open,
    }),
  );
}

/**
 * Returns one tool with its approved manifest, its current manifest, and the changes between them.
 */
export async function readTool(
  { db, clock, guard }: Deps,
  { tenantId }: Caller,
  name: string,
): Promise<
  ToolRecord & { manifest: JsonObject; approved_manifest: JsonObject | null; drift: Drift[] }
> {
  const tools = signedRows({ db, guard }, 'tool');
  const tool = await tools.findUnique({ where: { tenantId_name: { tenantId, name } } });
  if (tool === null) throw new GatewayError('tool.not_found');
  const versions = await db.toolVersion.findMany({
    where: { tenantId, name, hash: { in: [tool.manifestHash, tool.approvedHash ?? ''] } },
  });
  const current = versions.find(({ hash }) => hash === tool.manifestHash);
  if (current === undefined) throw new Error(`the current version of ${name} is not stored`);
  const approved = versions.find(({ hash }) => hash === tool.approvedHash);
  const open = await claimedRows(db, 'approval').findClaims(waitingColumns, {
    where: { ...openOnes(tenantId, clock.now()), tool: name },
  });
  const manifest = readManifest(current.manifest);
  const approvedOne = approved && readManifest(approved.manifest);
  return {
    ...recordOf(tool, { submittedBy: current.ingestedBy, open }),
    manifest,
    approved_manifest: approvedOne ?? null,
    drift: approvedOne ? [...classifyDrift(approvedOne, manifest)] : [],
  };
}

/**
 * Columns that are read without verification, because the ids of waiting approvals are only shown.
 */
const waitingColumns = ['id', 'tool', 'manifestHash'] as const;

function openOnes(tenantId: string, nowMs: number) {
  return {
    tenantId,
    kind: 'tool',
    status: { in: openStates },
    expiresAt: { gt: new Date(nowMs) },
  };
}

function recordOf(
  tool: Verified<Tool>,
  {
    submittedBy,
    open,
  }: {
    readonly submittedBy: string;
    readonly open: readonly Pick<Approval, (typeof waitingColumns)[number]>[];
  },
): ToolRecord {
  const { name, manifestHash, approvedHash, driftReason, updatedAt } = tool;
  const waiting = open.find((one) => one.tool === name && one.manifestHash === manifestHash);
  return {
    name,
    // An unreadable value counts as the most restrictive one, as in decisions.
    approval_status:
      approvalStatuses.find((known) => known === tool.approvalStatus) ?? 'reapproval_required',
    risk_tier: riskTiers.find((known) => known === tool.riskTier) ?? 'critical',
    manifest_hash: manifestHash,
    approved_hash: approvedHash,
    drift_reason: driftReason,
    submitted_by: submittedBy,
    updated_at: updatedAt.toISOString(),
    ...(waiting === undefined ? {} : { approval_request_id: String(waiting.id) }),
  };
}

interface ToolDiff {
  readonly beforeHash: string;
  readonly afterHash: string;
  readonly material: boolean;
  readonly drift: readonly Drift[];
}

/** Classifies the changes between two manifests. Neither reads nor stores data. */
export function diffTools(before: JsonObject, after: JsonObject): ToolDiff {
  const [old, now] = [parseManifest(before), parseManifest(after)];
  const drift = classifyDrift(old, now);
  return {
    beforeHash: manifestHash(old),
    afterHash: manifestHash(now),
    material: isMaterial(drift),
    drift,
  };
}

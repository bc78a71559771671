import { GatewayError } from '../../shared/errors.ts';
import type { JsonObject } from '../../shared/json.ts';
import { type NextStanding, nextStatus } from '../../shared/manifest/approval-status.ts';
import { classifyDrift, type Drift, isMaterial } from '../../shared/manifest/drift.ts';
import { manifestHash, surfaceHash } from '../../shared/manifest/hash.ts';
import { type NormalisedManifest, riskTierOf } from '../../shared/manifest/manifest.ts';
import { parseManifest } from '../../shared/manifest/normalise.ts';
import type { ApprovalStatus } from '../../shared/manifest/tool-record.ts';
import { schemaProblem } from '../../shared/manifest/validator.ts';
import { openToolApproval } from '../approvals/open-tool-approval.ts';
import { type ChangeNotes, commitChange, lockFor } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services, Transaction } from '../services.ts';
import type { Tool } from '../store/generated/client.ts';
import { renamedFrom } from './renamed-from.ts';

interface IngestedTool {
  readonly manifest: NormalisedManifest;
  readonly manifestHash: string;
  readonly surfaceHash: string;
  readonly standing: NextStanding;
  /** From the approved manifest, if there was one. */
  readonly drift: readonly Drift[];
  /** The name of a registered tool that shows the same: this is that tool, renamed. */
  readonly renamedFrom: string | undefined;
  /** The approval that would let the tool work again. */
  readonly approvalId: number | undefined;
}

interface Submission {
  readonly tenantId: string;
  readonly principal: string;
  readonly manifest: NormalisedManifest;
  readonly hash: string;
  readonly surface: string;
  readonly now: Date;
}

/**
 * Registers a version of a tool and says where the tool stands now. What drifted from the
 * approved manifest stops working with this very transaction and waits for a human.
 */
export async function ingestTool(
  services: Services,
  { tenantId, principal }: Caller,
  submitted: JsonObject,
): Promise<IngestedTool> {
  const manifest = parseManifest(submitted);
  assertUsable(manifest);
  const submission: Submission = {
    tenantId,
    principal,
    manifest,
    hash: manifestHash(manifest),
    surface: surfaceHash(manifest),
    now: new Date(services.clock.now()),
  };
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `tool ${manifest.name}`);
    const { known, drift, standing } = await judge(tx, submission);
    const renamed = known === null ? await renamedFrom(tx, tenantId, manifest) : undefined;
    await store(tx, submission, standing, drift);
    notes.sections('tools');
    await noteIngestion(notes, submission, { known, drift, standing, renamed });
    const approvalId = await requestApproval(services, tx, notes, submission, standing);
    return { drift, standing, approvalId, renamedFrom: renamed };
  });
  return {
    manifest,
    manifestHash: submission.hash,
    surfaceHash: submission.surface,
    ...result,
  };
}

/** A schema that cannot be compiled would refuse every call; better to say so now. */
function assertUsable({ inputSchema }: NormalisedManifest): void {
  const problem = inputSchema === undefined ? undefined : schemaProblem(inputSchema);
  if (problem === undefined) return;
  throw new GatewayError('args.schema_invalid', { message: `manifest.inputSchema: ${problem}` });
}

interface Judgement {
  readonly known: Tool | null;
  readonly drift: readonly Drift[];
  readonly standing: NextStanding;
}

async function judge(tx: Transaction, submission: Submission): Promise<Judgement> {
  const { tenantId, manifest, hash } = submission;
  const { name } = manifest;
  const known = await tx.tool.findUnique({ where: { tenantId_name: { tenantId, name } } });
  const approved = await approvedManifest(tx, known);
  const drift = approved === undefined ? [] : classifyDrift(approved, manifest);
  const standing = nextStatus({
    hash,
    riskTier: riskTierOf(manifest),
    standing: known === null ? undefined : standingOf(known),
    drifts: drift,
  });
  return { known, drift, standing };
}

function standingOf(tool: Tool) {
  return {
    manifestHash: tool.manifestHash,
    approvedHash: tool.approvedHash ?? undefined,
    approvalStatus: tool.approvalStatus as ApprovalStatus,
  };
}

async function approvedManifest(
  tx: Transaction,
  known: Tool | null,
): Promise<NormalisedManifest | undefined> {
  if (known === null || known.approvedHash === null) return undefined;
  const { tenantId, name, approvedHash } = known;
  const version = await tx.toolVersion.findUniqueOrThrow({
    where: { tenantId_name_hash: { tenantId, name, hash: approvedHash } },
  });
  return JSON.parse(version.manifest) as NormalisedManifest;
}

async function store(
  tx: Transaction,
  { tenantId, principal, manifest, hash, surface, now }: Submission,
  standing: NextStanding,
  drift: readonly Drift[],
): Promise<void> {
  const { name } = manifest;
  await tx.toolVersion.createMany({
    data: {
      tenantId,
      name,
      hash,
      surfaceHash: surface,
      manifest: JSON.stringify(manifest),
      drift: drift.map((one) => ({ ...one })),
      ingestedBy: principal,
      ingestedAt: now,
    },
    skipDuplicates: true,
  });
  const fields = {
    manifestHash: hash,
    approvedHash: standing.approvedHash ?? null,
    approvalStatus: standing.approvalStatus,
    riskTier: riskTierOf(manifest),
    driftReason: standing.driftReason ?? null,
    updatedAt: now,
  };
  await tx.tool.upsert({
    where: { tenantId_name: { tenantId, name } },
    create: { tenantId, name, ...fields },
    update: fields,
  });
}

async function noteIngestion(
  notes: ChangeNotes,
  { principal, manifest, hash }: Submission,
  { known, drift, standing, renamed }: Judgement & { readonly renamed: string | undefined },
): Promise<void> {
  const drifted = isMaterial(drift);
  await notes.event({
    type: drifted ? 'tool.drifted' : 'tool.ingested',
    chainId: `tool:${manifest.name}`,
    tool: manifest.name,
    reasonCode: standing.driftReason,
    data: {
      approval_status: standing.approvalStatus,
      approved_hash: standing.approvedHash,
      by: principal,
      drift: drift.slice(0, driftsKept).map((one) => ({ class: one.class, path: one.path })),
      manifest_hash: hash,
      previous_hash: known?.manifestHash,
      renamed_from: renamed,
      risk_tier: riskTierOf(manifest),
    },
  });
}

/** The version keeps all of them; the event names the most telling. */
const driftsKept = 50;

async function requestApproval(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, principal, manifest, hash, now }: Submission,
  standing: NextStanding,
): Promise<number | undefined> {
  const { approvalStatus, driftReason } = standing;
  if (approvalStatus !== 'pending_approval' && approvalStatus !== 'reapproval_required') {
    return undefined;
  }
  return openToolApproval(services, tx, notes, {
    tenantId,
    requestedBy: principal,
    tool: manifest.name,
    manifestHash: hash,
    riskTier: riskTierOf(manifest),
    reasonCode: driftReason ?? 'tool.pending_approval',
    now,
  });
}

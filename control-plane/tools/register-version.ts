import type { NextToolStatus } from '../../shared/manifest/approval-status.ts';
import { type Drift, isMaterial } from '../../shared/manifest/drift.ts';
import { type NormalisedManifest, riskTierOf } from '../../shared/manifest/manifest.ts';
import { openToolApproval } from '../approvals/open-tool-approval.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Tool } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** A version of a tool that was submitted or observed. */
export interface Submission {
  readonly tenantId: string;
  readonly principal: string;
  /** Principals that count as the same person as `principal`. */
  readonly mintedBy?: readonly string[] | undefined;
  readonly manifest: NormalisedManifest;
  readonly hash: string;
  readonly surface: string;
  readonly now: Date;
}

/** Effect of a version on its tool. */
export interface Judgement {
  readonly known: Verified<Tool> | null;
  readonly drift: readonly Drift[];
  readonly standing: NextToolStatus;
  /**
   * Previous name of the tool, if it was renamed: a registered tool with the previous name has the
   * same content.
   */
  readonly renamed: string | undefined;
}

/**
 * Makes a version the tool's current one and records its event. If an approval is required, opens
 * it and returns its id. The caller must hold the tool's lock.
 */
export async function registerVersion(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  submission: Submission,
  judgement: Judgement,
): Promise<number | undefined> {
  const { standing, drift } = judgement;
  await store(tx, notes, submission, { standing, drift });
  notes.sections('tools');
  await recordIngestion(notes, submission, judgement);
  return requestApproval(services, tx, notes, submission, standing);
}

async function store(
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, principal, manifest, hash, surface, now }: Submission,
  { standing, drift }: Pick<Judgement, 'standing' | 'drift'>,
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
  await notes.rows('tool').put({
    tenantId,
    name,
    manifestHash: hash,
    approvedHash: standing.approvedHash ?? null,
    approvalStatus: standing.approvalStatus,
    riskTier: riskTierOf(manifest),
    driftReason: standing.driftReason ?? null,
    updatedAt: now,
  });
}

async function recordIngestion(
  notes: ChangeNotes,
  { principal, manifest, hash }: Submission,
  { known, drift, standing, renamed }: Judgement,
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

/** Maximum number of drifts in the event. The stored version contains all of them. */
const driftsKept = 50;

async function requestApproval(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, principal, mintedBy = [], manifest, hash, now }: Submission,
  standing: NextToolStatus,
): Promise<number | undefined> {
  const { approvalStatus, driftReason } = standing;
  if (approvalStatus !== 'pending_approval' && approvalStatus !== 'reapproval_required') {
    return undefined;
  }
  return openToolApproval(services, tx, notes, {
    tenantId,
    requestedBy: [principal, ...mintedBy],
    tool: manifest.name,
    manifestHash: hash,
    riskTier: riskTierOf(manifest),
    reasonCode: driftReason ?? 'tool.pending_approval',
    now,
  });
}

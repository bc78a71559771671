import type { JsonObject } from '../../shared/base/json.ts';
import { type NextToolStatus, nextStatus } from '../../shared/manifest/approval-status.ts';
import { classifyDrift, type Drift } from '../../shared/manifest/drift.ts';
import { manifestHash, sameButName, surfaceHash } from '../../shared/manifest/hash.ts';
import { type NormalisedManifest, riskTierOf } from '../../shared/manifest/manifest.ts';
import { parseManifest } from '../../shared/manifest/normalise.ts';
import type { ApprovalStatus } from '../../shared/vocabulary/tool-record.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Tool } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { readManifest } from '../records/stored-manifest.ts';
import { type Judgement, registerVersion, type Submission } from './register-version.ts';
import { approvedManifest, assertUsable } from './tool-version.ts';

interface IngestedTool {
  readonly manifest: NormalisedManifest;
  readonly manifestHash: string;
  readonly surfaceHash: string;
  readonly standing: NextToolStatus;
  /** Changes from the approved manifest to this version; empty if there is no approved manifest. */
  readonly drift: readonly Drift[];
  /**
   * Previous name of the tool, if it was renamed: a registered tool with the previous name has the
   * same content.
   */
  readonly renamedFrom: string | undefined;
  /** Id of the approval that would allow the tool again. */
  readonly approvalId: number | undefined;
}

/**
 * Registers a version of a tool and returns the tool's new status. If the version drifted from the
 * approved manifest, this transaction stops the tool, and the version waits for a human.
 */
export async function ingestTool(
  services: Services,
  { tenantId, principal, mintedBy }: Caller,
  submitted: JsonObject,
): Promise<IngestedTool> {
  const manifest = parseManifest(submitted);
  assertUsable(manifest);
  const submission: Submission = {
    tenantId,
    principal,
    mintedBy,
    manifest,
    hash: manifestHash(manifest),
    surface: surfaceHash(manifest),
    now: new Date(services.clock.now()),
  };
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `tool ${manifest.name}`);
    const { known, drift, standing } = await judge(tx, notes, submission);
    const renamed = known === null ? await renamedFrom(tx, tenantId, manifest) : undefined;
    const approvalId = await registerVersion(services, tx, notes, submission, {
      known,
      drift,
      standing,
      renamed,
    });
    return { drift, standing, approvalId, renamedFrom: renamed };
  });
  return {
    manifest,
    manifestHash: submission.hash,
    surfaceHash: submission.surface,
    ...result,
  };
}

async function judge(
  tx: Transaction,
  notes: ChangeNotes,
  submission: Submission,
): Promise<Omit<Judgement, 'renamed'>> {
  const { tenantId, manifest, hash } = submission;
  const { name } = manifest;
  const tools = notes.rows('tool');
  const known = await tools.findUnique({ where: { tenantId_name: { tenantId, name } } });
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

function standingOf(tool: Verified<Tool>) {
  return {
    manifestHash: tool.manifestHash,
    approvedHash: tool.approvedHash ?? undefined,
    approvalStatus: tool.approvalStatus as ApprovalStatus,
  };
}

/**
 * Maximum number of versions to compare, newest first. This is enough, because the previous name of
 * a renamed tool was registered recently.
 */
const comparedMax = 1000;

/**
 * Returns the previous name of the tool, if a registered version differs from this one only in its
 * name.
 */
async function renamedFrom(
  tx: Transaction,
  tenantId: string,
  manifest: NormalisedManifest,
): Promise<string | undefined> {
  const versions = await tx.toolVersion.findMany({
    where: { tenantId, name: { not: manifest.name } },
    orderBy: { ingestedAt: 'desc' },
    take: comparedMax,
    select: { name: true, manifest: true },
  });
  const shown = { ...manifest } as JsonObject;
  return versions.find((version) => sameButName(readManifest(version.manifest), shown))?.name;
}

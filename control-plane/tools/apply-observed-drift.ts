import { isJsonObject } from '../../shared/base/json.ts';
import { parseStrictJson } from '../../shared/base/strict-json.ts';
import { matchesAnyGlob } from '../../shared/glob/glob.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { NextToolStatus } from '../../shared/manifest/approval-status.ts';
import { classifyDrift, driftReason } from '../../shared/manifest/drift.ts';
import { manifestHash, surfaceHash } from '../../shared/manifest/hash.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';
import { parseManifest } from '../../shared/manifest/normalise.ts';
import { openStates } from '../approvals/open-states.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { claimsOf, type Unverified, type Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar, Tool } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { readManifest } from '../records/stored-manifest.ts';
import { registerVersion } from './register-version.ts';
import { approvedManifest, assertUsable } from './tool-version.ts';

/**
 * Maximum number of open approvals per tool, so that a server whose tools keep changing does not
 * flood humans.
 */
const openApprovalsMax = 5;

interface Observation {
  readonly tool: string;
  readonly approvedSurface: string;
  readonly observedSurface: string;
  /** The tool as the server currently lists it, as JSON text. */
  readonly surface: string | undefined;
}

/**
 * Applies a sidecar's report that a server's tool differs from the approved manifest. The tool then
 * needs a new approval for every agent, and the observed form waits for a human. A report never
 * approves a tool, not even for a harmless change or a return to the old form. A repeated report
 * changes nothing.
 */
export async function applyObservedDrift(
  services: Services,
  sidecar: Verified<Sidecar>,
  event: EvidenceEvent,
): Promise<void> {
  const observation = readObservation(event);
  if (observation === undefined) return;
  const { tenantId } = sidecar;
  await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `tool ${observation.tool}`);
    const found = await findDrifted(tx, notes, sidecar, observation);
    if (found === undefined) return;
    const tool = notes.rows('tool').verify(found);
    await carryOver(services, tx, notes, { sidecar, tool, observation });
  });
}

function readObservation({ type, tool, data }: EvidenceEvent): Observation | undefined {
  const { approved_surface_hash, observed_surface_hash, observed_surface } = data;
  const isReport =
    type === 'tool.drifted' &&
    tool !== undefined &&
    typeof approved_surface_hash === 'string' &&
    typeof observed_surface_hash === 'string';
  if (!isReport) return undefined;
  return {
    tool,
    approvedSurface: approved_surface_hash,
    observedSurface: observed_surface_hash,
    surface: typeof observed_surface === 'string' ? observed_surface : undefined,
  };
}

/**
 * Returns the tool if the report concerns the currently approved version and the sidecar can
 * observe the tool: it must be a tool of a bound MCP server, within the capabilities of the
 * sidecar's agent. Without this check, one agent's sidecar could stop the tools of others.
 */
async function findDrifted(
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, agentId }: Verified<Sidecar>,
  { tool: name, approvedSurface, observedSurface }: Observation,
): Promise<Unverified<Tool> | undefined> {
  const where = { tenantId_name: { tenantId, name } };
  const tool = await notes.rows('tool').findUniqueUnverified({ where });
  const hash = tool === null ? null : claimsOf(tool).approvedHash;
  if (tool === null || hash === null || approvedSurface === observedSurface) return undefined;
  const approved = await tx.toolVersion.findUnique({
    where: { tenantId_name_hash: { tenantId, name, hash } },
  });
  if (approved?.surfaceHash !== approvedSurface) return undefined;
  const server = /^mcp\.([^.]+)\./.exec(name)?.[1] ?? '';
  const binding = await tx.binding.findFirst({
    where: { tenantId, name: server, protocol: 'mcp' },
  });
  const [agent] = await notes.rows('agent').findClaims(['capabilities'], {
    where: { tenantId, id: Number(agentId) },
  });
  const isSeen = binding !== null && matchesAnyGlob(agent?.capabilities ?? [], name, 'tool');
  return isSeen ? tool : undefined;
}

interface Drifted {
  readonly sidecar: Verified<Sidecar>;
  readonly tool: Verified<Tool>;
  readonly observation: Observation;
}

async function carryOver(
  services: Services,
  tx: Transaction,
  notes: ChangeNotes,
  { sidecar, tool, observation }: Drifted,
): Promise<void> {
  const { tenantId, name } = tool;
  const current = await tx.toolVersion.findUnique({
    where: { tenantId_name_hash: { tenantId, name, hash: tool.manifestHash } },
  });
  const isKnown = current?.surfaceHash === observation.observedSurface;
  // A human has already rejected this form.
  if (isKnown && tool.approvalStatus === 'rejected') return;
  const approved = await approvedManifest(tx, tool);
  const seen = isKnown ? readManifest(current.manifest) : manifestAsSeen(approved, observation);
  const open = await notes.rows('approval').findClaims(['manifestHash'], {
    where: { tenantId, kind: 'tool', tool: name, status: { in: openStates } },
  });
  const hash = seen && manifestHash(seen);
  const isAsked = open.some((one) => one.manifestHash === hash);
  if (isKnown && isAsked) return;
  if (approved === undefined || seen === undefined || hash === undefined) {
    return stop(notes, tool, sidecar);
  }
  if (!isAsked && open.length >= openApprovalsMax) return stop(notes, tool, sidecar);
  const drift = classifyDrift(approved, seen);
  const standing: NextToolStatus = {
    approvalStatus: 'reapproval_required',
    approvedHash: tool.approvedHash ?? undefined,
    driftReason: driftReason(drift) ?? 'tool.manifest_changed',
  };
  await registerVersion(
    services,
    tx,
    notes,
    {
      tenantId,
      principal: `sidecar:${sidecar.id}`,
      manifest: seen,
      hash,
      surface: observation.observedSurface,
      now: new Date(services.clock.now()),
    },
    { known: tool, drift, standing, renamed: undefined },
  );
}

/** Returns the approved manifest with the observed surface in place of the approved one. */
function manifestAsSeen(
  approved: NormalisedManifest | undefined,
  { tool, surface, observedSurface }: Observation,
): NormalisedManifest | undefined {
  if (approved === undefined || surface === undefined) return undefined;
  try {
    const shown = parseStrictJson(Buffer.from(surface), { numbers: 'rounded' });
    if (!isJsonObject(shown)) return undefined;
    const { title, description, inputSchema, outputSchema, annotations } = shown;
    const surfaceMembers = { title, description, inputSchema, outputSchema, annotations };
    const merged = { ...approved, ...surfaceMembers, name: tool };
    const manifest = parseManifest(merged);
    assertUsable(manifest);
    return surfaceHash(manifest) === observedSurface ? manifest : undefined;
  } catch {
    // An observation that is not a valid manifest cannot be approved, so the caller stops the tool
    // instead.
    return undefined;
  }
}

/**
 * Stops the tool without opening an approval, because there is no valid form that could be
 * approved. The tool must be registered again.
 */
async function stop(
  notes: ChangeNotes,
  tool: Verified<Tool>,
  sidecar: Verified<Sidecar>,
): Promise<void> {
  const { name, approvalStatus, manifestHash: current } = tool;
  if (approvalStatus !== 'approved') return;
  const reasonCode = 'tool.manifest_changed';
  const changes = { approvalStatus: 'reapproval_required', driftReason: reasonCode };
  await notes.rows('tool').update(tool, changes);
  notes.sections('tools');
  const reported = {
    approval_status: 'reapproval_required',
    by: `sidecar:${sidecar.id}`,
    manifest_hash: current,
  };
  await notes.event({
    type: 'tool.drifted',
    chainId: `tool:${name}`,
    tool: name,
    reasonCode,
    data: reported,
  });
}

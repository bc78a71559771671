import type { Services } from '../core/services.ts';
import { readSealed } from '../ledger/reading/sealed-text.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import type { Tool } from '../platform/store/generated/client.ts';
import { type Assessment, type Control, findingOn, insufficient } from './control.ts';
import { hashOf } from './policy-control.ts';
import { type SampledDecision, sampleDecisions } from './sampled-decisions.ts';

/** CC-5: agents call only approved tools, and policies change only by publication. */
export const changeControl: Control = {
  id: 'CC-5',
  title: 'Tool change control',
  frameworks: {
    soc2: ['CC8.1'],
    owasp_agentic: ['ASI04'],
    owasp_mcp: ['MCP03', 'MCP04'],
  },
  async assess(services, tenantId) {
    const { decisions } = await sampleDecisions(services, tenantId);
    const permitted = decisions.filter(({ isPermitted }) => isPermitted);
    const tools = await assessTools(services, tenantId, permitted);
    const policies = await assessPolicies(services, tenantId);
    return {
      evidence: { ...tools.evidence, ...policies.evidence },
      findings: [...tools.findings, ...policies.findings, ...forgedRows(services, tenantId)],
    };
  },
};

/** Returns a finding if the latest integrity sweep found forged or missing rows. */
function forgedRows({ guard }: Services, tenantId: string) {
  return findingOn(guard.suspectsOf(tenantId), {
    reason: 'forged_rows',
    message: 'Rows that give or limit authority were changed or removed outside the API.',
    nextStep:
      'Restore them from a backup; read the integrity.forged_row events, and check who can write to the database.',
  });
}

const assessedColumns = ['name', 'manifestHash', 'approvedHash', 'approvalStatus'] as const;
type AssessedTool = Pick<Tool, (typeof assessedColumns)[number]>;

async function assessTools(
  { db }: Services,
  tenantId: string,
  permitted: readonly SampledDecision[],
): Promise<Assessment> {
  const tools = await claimedRows(db, 'tool').findClaims(assessedColumns, {
    where: { tenantId },
    orderBy: { name: 'asc' },
  });
  const versions = await db.toolVersion.findMany({
    where: { tenantId },
    select: { name: true, hash: true },
  });
  const known = new Set(versions.map(({ name, hash }) => `${hash} ${name}`));
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const used = [...new Set(permitted.map(({ tool }) => tool))].sort();
  const isUnknown = ({ tool, manifestHash }: SampledDecision) =>
    manifestHash !== undefined && !known.has(`${manifestHash} ${tool}`);
  const isPending = (name: string) => {
    const tool = byName.get(name);
    return tool !== undefined && !isDrifted(tool) && !isApproved(tool);
  };
  const namesOf = (those: readonly AssessedTool[]) => those.map(({ name }) => name);
  const findings = [
    ...findingOn(namesOf(tools.filter(isDrifted)), {
      reason: 'drift_open',
      message: 'Tools changed since they were approved, and the change is undecided.',
      nextStep: 'GET /v1/tools/{name} shows what changed; decide its approval.',
    }),
    ...findingOn(used.filter(isPending), {
      reason: 'tool_not_approved',
      message: 'Tools were used whose current manifest is not the approved one.',
      nextStep: 'Decide their approvals: GET /v1/approvals.',
    }),
    ...findingOn(
      used.filter((name) => !byName.has(name)),
      {
        reason: 'tool_unregistered',
        message: 'Unregistered tools were used: a change of their manifests is not detected.',
        nextStep: 'Register them with POST /v1/tools/ingest, or set the mode to strict.',
      },
    ),
    ...findingOn(
      permitted.filter(isUnknown).map(({ id }) => id),
      {
        reason: 'manifest_unknown',
        message: 'Calls were allowed by manifests that are not registered.',
        nextStep: 'The tools table was changed: compare these events with it.',
      },
    ),
    ...(used.length > 0 ? [] : [noToolUsed]),
  ];
  const evidence = {
    tools_registered: tools.length,
    tools_used: used.length,
    decisions_sampled: permitted.length,
    evidence_event_ids: permitted.slice(0, 5).map(({ id }) => id),
  };
  return { evidence, findings };
}

const noToolUsed = insufficient(
  'No tool was used yet.',
  'Register a tool with POST /v1/tools/ingest, and let an agent call it.',
);

function isDrifted({ approvalStatus }: AssessedTool): boolean {
  return approvalStatus === 'reapproval_required';
}

function isApproved({ approvalStatus, approvedHash, manifestHash }: AssessedTool): boolean {
  return approvalStatus === 'approved' && approvedHash === manifestHash;
}

async function assessPolicies({ db, pool }: Services, tenantId: string): Promise<Assessment> {
  const columns = ['id', 'policyHash', 'definition'] as const;
  const published = await claimedRows(db, 'policy').findClaims(columns, {
    where: { tenantId, lifecycle: 'published' },
    orderBy: { id: 'asc' },
  });
  const proven = await publications(
    { pool },
    tenantId,
    published.map(({ id }) => id),
  );
  const isPublished = ({ id, policyHash }: (typeof published)[number]) =>
    proven.has(`${id} ${policyHash}`);
  const edited = published.filter((row) => hashOf(row.definition) !== row.policyHash);
  const findings = [
    ...findingOn(
      edited.map(({ id }) => id),
      {
        reason: 'policy_edited',
        message:
          'Published policies were changed in place: their definition does not match its hash.',
        nextStep: 'Publish new versions of them, and check who can write to the database.',
      },
    ),
    ...findingOn(
      published.filter((row) => !isPublished(row)).map(({ id }) => id),
      {
        reason: 'publication_not_in_ledger',
        message: 'The ledger has no publication event for these policies.',
        nextStep: 'Archive them with DELETE /v1/policies/{id}, and publish the intended policies.',
      },
    ),
  ];
  return { evidence: { policies_published: published.length }, findings };
}

/** Returns `<id> <hash>` for each publication of these policies that is recorded in the ledger. */
async function publications(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
  ids: readonly number[],
): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ canonical: string }>(
    `SELECT canonical FROM evidence_row
      WHERE tenant_id = $1 AND chain_id = ANY($2::text[]) AND type = 'policy.published'
        AND source = 'control-plane'`,
    [tenantId, ids.map((id) => `policy:${id}`)],
  );
  return new Set(
    rows.map(({ canonical }) => {
      const { data } = readSealed(canonical);
      return `${data.policy_id} ${data.policy_hash}`;
    }),
  );
}

import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicy } from '../../shared/policy/language/validate.ts';
import { compileUncertain } from '../../shared/policy/uncertain/uncertain-policies.ts';
import { type Mode, modes, stricterMode } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import { listKillSwitches } from '../kill-switches/list-kill-switches.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { loadPublishedPolicies } from '../policies/load-published.ts';
import type { SealedDecision } from '../trials/decision-pages.ts';
import { rejudge } from '../trials/rejudge.ts';
import { type Assessment, type Control, type Finding, findingOn, insufficient } from './control.ts';
import { type DecisionSample, sampleDecisions } from './sampled-decisions.ts';

/** CC-1: calls were allowed by stored policies whose content has not changed since. */
export const policyControl: Control = {
  id: 'CC-1',
  title: 'Every action is authorised by policy',
  frameworks: {
    soc2: ['CC6.1', 'CC5.2'],
    iso_42001: ['A.6.2'],
    owasp_agentic: ['ASI02'],
  },
  async assess(services, tenantId) {
    const rules = await assessRules(services, tenantId);
    const sample = await sampleDecisions(services, tenantId);
    const decided = await assessDecisions(services, tenantId, sample);
    return {
      evidence: { ...rules.evidence, ...decided.evidence },
      findings: [...rules.findings, ...decided.findings],
    };
  },
};

async function assessRules(services: Services, tenantId: string): Promise<Assessment> {
  const { db } = services;
  const mode = await modeInForce(services, tenantId);
  const rows = await claimedRows(db, 'policy').findClaims(['policyHash', 'definition'], {
    where: { tenantId, lifecycle: 'published' },
  });
  const isReadable = await loadPublishedPolicies(services, tenantId).then(
    () => true,
    () => false,
  );
  const enforcing = rows.filter(({ definition }) => isEnforcing(definition)).length;
  const findings: Finding[] = [];
  if (!isReadable) findings.push(unreadablePolicies);
  if (enforcing === 0) findings.push(noEnforcingPolicy);
  if (!isEnforcingMode(mode)) findings.push(looseMode(mode));
  const evidence = {
    mode,
    published_policies: rows.length,
    enforcing_policies: enforcing,
    policy_hashes: rows.map((row) => row.policyHash).slice(0, 100),
  };
  return { evidence, findings };
}

/** Returns the tenant's own mode, or a stricter mode that a kill switch forces on all calls. */
async function modeInForce(services: Services, tenantId: string): Promise<Mode> {
  const tenant = await signedRows(services, 'tenant').findExisting({ where: { id: tenantId } });
  // The cast is safe, because the column's constraint allows no other value.
  const own = tenant.mode as Mode;
  const armed = await listKillSwitches(services, { tenantId }, { status: 'armed', limit: 1_000 });
  const forced = armed.flatMap(({ kind, tool, agent_id, mode }) =>
    kind === 'force_mode' && tool === undefined && agent_id === undefined
      ? modes.filter((known) => known === mode)
      : [],
  );
  return forced.reduce(stricterMode, own);
}

function isEnforcingMode(mode: string): boolean {
  return mode === 'enforce' || mode === 'strict';
}

/** Returns whether the definition is in an enforcing mode; false if it cannot be read. */
function isEnforcing(text: string): boolean {
  try {
    return isEnforcingMode(parsePolicy(text).mode ?? 'enforce');
  } catch {
    return false;
  }
}

const unreadablePolicies: Finding = {
  reason: 'policies_unreadable',
  message: 'A published policy does not match its published hash: every call is denied.',
  nextStep: 'GET /v1/policies shows them: publish a new version in place of the damaged one.',
};

const noEnforcingPolicy: Finding = {
  reason: 'no_enforcing_policy',
  message: 'No published policy enforces.',
  nextStep: 'Publish a policy: POST /v1/policies, or POST /v1/policies/install-pack.',
};

const looseMode = (mode: string): Finding => ({
  reason: 'mode_not_enforcing',
  message: `The tenant's mode is ${mode}: denials are reported and not enforced.`,
  nextStep: 'Arm a kill switch of kind force_mode with the mode enforce or strict.',
});

async function assessDecisions(
  services: Services,
  tenantId: string,
  { decisions, replayable }: DecisionSample,
): Promise<Assessment> {
  const stored = await storedPolicies(services, tenantId, [
    ...new Set(decisions.flatMap(({ policyHash: hash }) => hash ?? [])),
  ]);
  const permitted = decisions.filter(({ isPermitted }) => isPermitted);
  const replays = replayable.map((event) => ({ id: event.id, outcome: replay(event, stored) }));
  const idsOf = (outcome: Replay) =>
    replays.filter((one) => one.outcome === outcome).map(({ id }) => id);
  const evidence = {
    decisions_sampled: decisions.length,
    permitted: permitted.length,
    replayed: replays.length,
    replays_same: idsOf('same').length,
    replays_undetermined: idsOf('undetermined').length,
    evidence_event_ids: decisions.slice(0, 5).map(({ id }) => id),
  };
  const unenforced = permitted.filter((one) => one.isAtEnforcement && !one.isEnforced);
  const unfounded = permitted.filter((one) => one.isEnforced && one.policyHash === undefined);
  const unknown = decisions.filter(({ policyHash: hash }) => hash && !stored.has(hash));
  const findings = [
    ...findingOn(ids(unenforced), {
      reason: 'decision_not_enforced',
      message: 'Denied calls were forwarded, because the mode only reports.',
      nextStep:
        'Enforce from now on; these leave the sample once a thousand newer decisions are sealed.',
    }),
    ...findingOn(ids(unfounded), {
      reason: 'decision_without_policy',
      message: 'Calls were forwarded without naming the policy that allows them.',
      nextStep: 'Read these events, and publish a policy that covers their tools.',
    }),
    ...findingOn(ids(unknown), {
      reason: 'decision_policy_unknown',
      message: 'Decisions name a policy that is not stored or does not match its hash.',
      nextStep:
        'The policies table was changed: restore it, and check who can write to the database.',
    }),
    ...findingOn(idsOf('contradicted'), {
      reason: 'decision_contradicted',
      message: 'These decisions differ when the policy that they name is evaluated again.',
      nextStep: 'Compare these events with the policy of that hash; verify the ledger.',
    }),
    ...(decisions.length > 0 ? [] : [noDecisions]),
  ];
  return { evidence, findings };
}

const noDecisions = insufficient(
  'No call was judged yet.',
  'Let an agent make a call through its sidecar, or ask POST /v1/actions/preflight.',
);

function ids(decisions: readonly { readonly id: string }[]): readonly string[] {
  return decisions.map(({ id }) => id);
}

type Definitions = ReadonlyMap<string, { readonly id: number; readonly text: string }>;

/**
 * Returns the stored policies with the given hashes, in any lifecycle state. Recomputes each hash
 * from the policy's definition.
 */
async function storedPolicies(
  { db }: Services,
  tenantId: string,
  hashes: readonly string[],
): Promise<Definitions> {
  const columns = ['id', 'policyHash', 'definition'] as const;
  const rows = await claimedRows(db, 'policy').findClaims(columns, {
    where: { tenantId, policyHash: { in: [...hashes] } },
  });
  return new Map(
    rows
      .filter((row) => hashOf(row.definition) === row.policyHash)
      .map(({ id, policyHash: hash, definition }) => [hash, { id, text: definition }]),
  );
}

/** Returns the hash of a policy definition, or undefined if the text is not a definition. */
export function hashOf(definition: string): string | undefined {
  try {
    return policyHash(parsePolicy(definition));
  } catch {
    return undefined;
  }
}

type Replay = 'same' | 'undetermined' | 'contradicted';

/**
 * Evaluates a recorded decision again, with the policy that it names. The result may be
 * undetermined, because argument values are not stored. A determined result must equal the recorded
 * decision.
 */
function replay(event: SealedDecision, stored: Definitions): Replay {
  const hash = String(event.data.policy_hash);
  const policy = stored.get(hash);
  if (policy === undefined) return 'undetermined';
  const definition = parsePolicy(policy.text);
  // A policy that does not enforce cannot determine the decision alone.
  if (!isEnforcingMode(definition.mode ?? 'enforce')) return 'undetermined';
  const judged = rejudge(event, compileUncertain([{ id: policy.id, hash, definition }]));
  if (judged === undefined || judged.decision === 'unknown') return 'undetermined';
  return judged.decision === event.decision ? 'same' : 'contradicted';
}

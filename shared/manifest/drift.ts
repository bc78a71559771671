import type { JsonObject } from '../base/json.ts';
import { riskTiers } from '../vocabulary/action.ts';
import { type NormalisedManifest, riskTierOf } from './manifest.ts';
import { changedMembers, memberOf, pointerStep } from './members.ts';
import { compareSchemas, type SchemaChange } from './schema-drift.ts';

/** The drift classes, most significant first; each is the reason code `tool.<class>`. */
const severities = {
  read_to_write_conversion: 'critical',
  execution_capability_broadened: 'critical',
  publisher_unverified: 'high',
  publisher_changed: 'high',
  origin_changed: 'high',
  oauth_scope_broadened: 'high',
  side_effect_added: 'high',
  data_exposure_broadened: 'high',
  risk_tier_raised: 'high',
  input_schema_broadened: 'medium',
  description_changed: 'medium',
  protocol_changed: 'medium',
  output_schema_changed: 'medium',
  manifest_changed: 'medium',
  input_schema_narrowed: 'low',
} as const;

type DriftClass = keyof typeof severities;
type DriftSeverity = (typeof severities)[DriftClass];

/** One change between two versions of a tool. */
export interface Drift {
  readonly class: DriftClass;
  readonly reason_code: `tool.${DriftClass}`;
  readonly severity: DriftSeverity;
  /** JSON pointer into the manifest. */
  readonly path: string;
  readonly message: string;
  /** True when the tool must be approved again. */
  readonly material: boolean;
}

interface Versions {
  readonly before: NormalisedManifest;
  readonly after: NormalisedManifest;
}

type Judge = (versions: Versions) => readonly Drift[];

const judges: Readonly<Record<string, Judge>> = {
  title: ({ before, after }) => textChange('description_changed', 'title', before, after),
  description: ({ before, after }) =>
    textChange('description_changed', 'description', before, after),
  serverOrigin: ({ before, after }) => textChange('origin_changed', 'serverOrigin', before, after),
  protocol: ({ before, after }) => textChange('protocol_changed', 'protocol', before, after),
  publisherIdentity: ({ before, after }) =>
    textChange('publisher_changed', 'publisherIdentity', before, after),
  publisherVerified: judgeVerification,
  inputSchema: judgeInput,
  outputSchema: () => [
    drift('output_schema_changed', '/outputSchema', 'the output schema changed'),
  ],
  annotations: judgeAnnotations,
  oauthScopes: judgeScopes,
  sideEffectProfile: judgeSideEffects,
  riskTier: judgeRisk,
  executionCapability: (versions) =>
    judgeRank('executionCapability', 'execution_capability_broadened', rankCapability, versions),
  sensitiveDataExposure: (versions) =>
    judgeRank('sensitiveDataExposure', 'data_exposure_broadened', rankExposure, versions),
};

/**
 * Lists every change from one version of a tool to the next, most significant first. A change
 * without a class of its own is `manifest_changed`, so every change of the manifest's hash is
 * reported.
 */
export function classifyDrift(
  before: NormalisedManifest,
  after: NormalisedManifest,
): readonly Drift[] {
  return changedMembers(before, after)
    .flatMap((field) => judgeField(field, { before, after }))
    .sort((one, other) => rank(one) - rank(other));
}

/**
 * True if a change needs a human decision. Only a change that purely narrows the tool needs none.
 */
export function isMaterial(drifts: readonly Drift[]): boolean {
  return drifts.some(({ material }) => material);
}

/** The reason code of the most significant change for which a tool must be approved again. */
export function driftReason(drifts: readonly Drift[]): Drift['reason_code'] | undefined {
  return drifts.filter(({ material }) => material).sort((a, b) => rank(a) - rank(b))[0]
    ?.reason_code;
}

const classes = Object.keys(severities);

function rank(one: Drift): number {
  return classes.indexOf(one.class);
}

function judgeField(field: string, versions: Versions): readonly Drift[] {
  const judge = Object.hasOwn(judges, field) ? judges[field] : undefined;
  const found = judge?.(versions) ?? [];
  return found.length > 0
    ? found
    : [drift('manifest_changed', pointerStep(field), `${field} changed`)];
}

function drift(name: DriftClass, path: string, message: string): Drift {
  return {
    class: name,
    reason_code: `tool.${name}`,
    severity: severities[name],
    path,
    message,
    material: name !== 'input_schema_narrowed',
  };
}

/**
 * Returns the drift for a change that only narrows the tool. Such a change is reported, but needs
 * no new approval.
 */
function narrowing(path: string, message: string): Drift {
  return { ...drift('manifest_changed', path, message), severity: 'low', material: false };
}

function textChange(
  name: DriftClass,
  field: string,
  before: NormalisedManifest,
  after: NormalisedManifest,
): readonly Drift[] {
  const [was, is] = [before[field], after[field]].map((text) =>
    text === undefined ? 'nothing' : JSON.stringify(text).slice(0, 200),
  );
  return [drift(name, pointerStep(field), `${field} changed from ${was} to ${is}`)];
}

function judgeVerification({ after }: Versions): readonly Drift[] {
  const path = '/publisherVerified';
  return after.publisherVerified === true
    ? [drift('manifest_changed', path, 'the manifest now marks the publisher as verified')]
    : [drift('publisher_unverified', path, 'the publisher is no longer verified')];
}

const inputClasses: Readonly<Record<SchemaChange['kind'], DriftClass>> = {
  narrowed: 'input_schema_narrowed',
  broadened: 'input_schema_broadened',
  described: 'description_changed',
};

function judgeInput({ before, after }: Versions): readonly Drift[] {
  return compareSchemas(before.inputSchema ?? {}, after.inputSchema ?? {}, '/inputSchema').map(
    ({ kind, path, message }) => drift(inputClasses[kind], path, message),
  );
}

/**
 * Judges changes of annotations. Annotations are hints, and MCP's defaults are the worse case (not
 * read-only, destructive, open world).
 */
function judgeAnnotations({ before, after }: Versions): readonly Drift[] {
  const old = before.annotations ?? {};
  return changedMembers(old, after.annotations ?? {}).map((name) => judgeAnnotation(name, old));
}

function judgeAnnotation(name: string, old: JsonObject): Drift {
  const was = memberOf(old, name);
  const path = `/annotations${pointerStep(name)}`;
  if (name === 'readOnlyHint' && was === true) {
    return drift('read_to_write_conversion', path, 'readOnlyHint is no longer true');
  }
  if (name === 'destructiveHint' && was === false) {
    return drift('side_effect_added', path, 'destructiveHint is no longer false');
  }
  if (name === 'openWorldHint' && was === false) {
    return drift('execution_capability_broadened', path, 'openWorldHint is no longer false');
  }
  if (name === 'title') return drift('description_changed', path, 'the title changed');
  return drift('manifest_changed', path, `${name} changed`);
}

function judgeScopes({ before, after }: Versions): readonly Drift[] {
  const path = '/oauthScopes';
  const added = missingFrom(before.oauthScopes, after.oauthScopes);
  return added.length > 0
    ? [drift('oauth_scope_broadened', path, `new scopes: ${added.join(', ')}`)]
    : [narrowing(path, 'scopes were removed')];
}

/** Effects that change nothing; every other word, known or unknown, counts as a write. */
const harmlessEffects: readonly string[] = ['read', 'none'];

function judgeSideEffects({ before, after }: Versions): readonly Drift[] {
  const path = '/sideEffectProfile';
  const added = missingFrom(before.sideEffectProfile, after.sideEffectProfile);
  if (added.length === 0) return [narrowing(path, 'side effects were removed')];
  const writes = added.filter((effect) => !harmlessEffects.includes(effect));
  const wroteBefore = (before.sideEffectProfile ?? []).some((e) => !harmlessEffects.includes(e));
  return !wroteBefore && writes.length > 0
    ? [
        drift(
          'read_to_write_conversion',
          path,
          `a read-only tool now has side effects: ${writes.join(', ')}`,
        ),
      ]
    : [drift('side_effect_added', path, `new side effects: ${added.join(', ')}`)];
}

/**
 * Compares the risk tiers. A lower declared tier is no proof of lower risk, so it does not count as
 * narrowing.
 */
function judgeRisk({ before, after }: Versions): readonly Drift[] {
  const [was, is] = [riskTierOf(before), riskTierOf(after)];
  const raised = riskTiers.indexOf(is) > riskTiers.indexOf(was);
  return [
    drift(
      raised ? 'risk_tier_raised' : 'manifest_changed',
      '/riskTier',
      `the risk tier changed from ${was} to ${is}`,
    ),
  ];
}

const capabilities = ['none', 'sandboxed', 'network', 'code', 'shell'];
const exposures = [['none'], ['public', 'low'], ['internal', 'medium'], ['confidential', 'high']];

/** Unknown words rank above all known ones. */
function rankCapability(word: string): number {
  const known = capabilities.indexOf(word);
  return known === -1 ? capabilities.length : known;
}

function rankExposure(word: string): number {
  const known = exposures.findIndex((words) => words.includes(word));
  return known === -1 ? exposures.length : known;
}

function judgeRank(
  field: 'executionCapability' | 'sensitiveDataExposure',
  name: DriftClass,
  rankOf: (word: string) => number,
  { before, after }: Versions,
): readonly Drift[] {
  const was = before[field] ?? 'none';
  const is = after[field] ?? 'none';
  const message = `${field} went from ${was} to ${is}`;
  // A different word of the same rank counts as a change, because the new word may mean more.
  return rankOf(is) < rankOf(was)
    ? [narrowing(pointerStep(field), message)]
    : [drift(name, pointerStep(field), message)];
}

function missingFrom(
  old: readonly string[] | undefined,
  now: readonly string[] | undefined,
): readonly string[] {
  return (now ?? []).filter((member) => !old?.includes(member));
}

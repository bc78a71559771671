import { parseArgs } from 'node:util';
import type { Client } from '../../shared/contract/base/client.ts';
import {
  type ChangedPolicy,
  createPolicy,
  listPolicies,
  type PolicyRecord,
  updatePolicy,
} from '../../shared/contract/policies/policies.ts';
import type { PolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { readPolicies } from './files.ts';
import { countBySeverity, type FileFinding, findingLines, lintFiles } from './findings.ts';
import { publishedPolicies } from './published.ts';
import { say, sayJson } from './say.ts';

/** What is to be done with one file so that the control plane holds it. */
interface Step {
  readonly file: PolicyFile;
  readonly outcome: 'unchanged' | 'created' | 'updated' | 'published';
  /** The stored policy that holds it, or the draft that will. */
  readonly stored?: PolicyRecord | undefined;
}

interface Pushed {
  readonly definition_id: string;
  readonly file: string;
  readonly policy_hash: string;
  readonly outcome: Step['outcome'];
  /** Absent in a dry run of what is not stored yet. */
  readonly id?: number | undefined;
  readonly version?: number | undefined;
  readonly lifecycle?: string | undefined;
  readonly warnings?: readonly string[] | undefined;
}

/**
 * `sallyport policy push`: by definition id and hash, so that a second push changes nothing.
 * Every file is read and linted before the first is stored. Exit code 1 when findings kept
 * them from being published; then nothing is stored.
 */
export async function push(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...apiOptions,
      publish: { type: 'boolean', default: false },
      'allow-warnings': { type: 'boolean' },
      'dry-run': { type: 'boolean', default: false },
    },
    allowPositionals: true,
  });
  const { publish, 'dry-run': dryRun, json } = values;
  const files = readPolicies(positionals);
  const client = apiClient(values);
  const published = await publishedPolicies(client);
  const findings = lintFiles(
    files,
    published.map(({ definition }) => definition),
  );
  const { error, warning } = countBySeverity(findings);
  const stops = error + (values['allow-warnings'] === true ? 0 : warning);
  if (publish && stops > 0) return report({ findings, policies: [], json, dryRun, stopped: true });
  const steps = await planSteps(client, files, publish);
  const policies: Pushed[] = [];
  for (const step of steps) policies.push(pushed(step, await carryOut(client, step, values)));
  return report({ findings, policies, json, dryRun, stopped: false });
}

async function planSteps(
  client: Client,
  files: readonly PolicyFile[],
  publish: boolean,
): Promise<readonly Step[]> {
  const { policies } = await client.call(listPolicies);
  return files.map((file) => {
    const mine = policies.filter(({ definition_id }) => definition_id === file.definition.id);
    const inForce = mine.find(({ lifecycle }) => lifecycle === 'published');
    if (inForce?.policy_hash === file.hash) return { file, outcome: 'unchanged', stored: inForce };
    const drafts = mine.filter(({ lifecycle }) => lifecycle === 'draft');
    const draft = drafts.find(({ policy_hash }) => policy_hash === file.hash) ?? drafts.at(-1);
    if (publish) return { file, outcome: 'published', stored: draft };
    if (draft?.policy_hash === file.hash) return { file, outcome: 'unchanged', stored: draft };
    return { file, outcome: draft === undefined ? 'created' : 'updated', stored: draft };
  });
}

async function carryOut(
  client: Client,
  { file, outcome, stored }: Step,
  { 'dry-run': dryRun, publish }: { readonly 'dry-run': boolean; readonly publish: boolean },
): Promise<ChangedPolicy | undefined> {
  if (dryRun || outcome === 'unchanged') return stored;
  const { definition, json, hash } = file;
  if (stored === undefined) {
    return client.call(createPolicy, {
      body: { name: definition.id, rules_json: json, publish },
    });
  }
  return client.call(updatePolicy, {
    params: { id: String(stored.id) },
    body: {
      // What was read a moment ago, and no draft that somebody else put in its place since.
      expected_policy_hash: stored.policy_hash,
      ...(stored.policy_hash === hash ? {} : { rules_json: json }),
      ...(publish ? { lifecycle: 'published' as const } : {}),
    },
  });
}

function pushed({ file, outcome }: Step, record: ChangedPolicy | undefined): Pushed {
  return {
    definition_id: file.definition.id,
    file: file.file,
    policy_hash: file.hash,
    outcome,
    ...(record === undefined
      ? {}
      : {
          id: record.id,
          version: record.version,
          lifecycle: record.lifecycle,
          ...(record.warnings === undefined ? {} : { warnings: record.warnings }),
        }),
  };
}

interface Report {
  readonly findings: readonly FileFinding[];
  readonly policies: readonly Pushed[];
  readonly json: boolean | undefined;
  readonly dryRun: boolean;
  readonly stopped: boolean;
}

function report({ findings, policies, json, dryRun, stopped }: Report): number {
  if (json === true) sayJson({ policies, findings, dry_run: dryRun, stopped });
  else {
    say([
      ...findings.flatMap(findingLines),
      ...policies.flatMap((one) => [
        pushedLine(one, dryRun),
        ...(one.warnings ?? []).map((text) => `  warning: ${text}`),
      ]),
      ...(stopped ? [stoppedLine] : []),
    ]);
  }
  return stopped ? 1 : 0;
}

const stoppedLine =
  'Nothing was stored: mend what was found. --allow-warnings publishes in spite of warnings, not of errors.';

function pushedLine({ definition_id, file, outcome, id }: Pushed, dryRun: boolean): string {
  const done = dryRun && outcome !== 'unchanged' ? `would be ${outcome}` : outcome;
  return `${definition_id} (${file}): ${done}${id === undefined ? '' : `, policy ${id}`}`;
}

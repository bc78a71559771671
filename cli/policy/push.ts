import type { Client } from '../../shared/contract/base/client.ts';
import {
  type ChangedPolicy,
  createPolicy,
  listPolicies,
  type PolicyRecord,
  updatePolicy,
} from '../../shared/contract/policies/policies.ts';
import type { PolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { printJson, printLines } from '../support/terminal.ts';
import { countBySeverity, type FileFinding, findingLines, lintFiles } from './findings.ts';
import { readPolicies } from './policy-files.ts';
import { publishedPolicies } from './stored-policies.ts';

interface Options extends ApiOptions {
  readonly publish: boolean;
  readonly allowWarnings: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** The change that makes the stored policy equal to one file. */
interface Step {
  readonly file: PolicyFile;
  readonly outcome: 'unchanged' | 'created' | 'updated' | 'published';
  /** The stored policy with this content, or the draft to change. */
  readonly stored?: PolicyRecord | undefined;
}

interface Pushed {
  readonly definition_id: string;
  readonly file: string;
  readonly policy_hash: string;
  readonly outcome: Step['outcome'];
  /** Absent if a dry run would create the policy. */
  readonly id?: number | undefined;
  readonly version?: number | undefined;
  readonly lifecycle?: string | undefined;
  readonly warnings?: readonly string[] | undefined;
}

/**
 * `sallyport policy push`. Compares definition ids and hashes, so that a second push changes
 * nothing. Reads and lints all files before storing any. If findings prevent publishing, stores
 * nothing and exits with 1.
 */
export async function push(paths: readonly string[], options: Options): Promise<number> {
  const { publish, allowWarnings, dryRun = false, json } = options;
  const files = readPolicies(paths);
  const client = apiClient(options);
  const published = await publishedPolicies(client);
  const findings = lintFiles(
    files,
    published.map(({ definition }) => definition),
  );
  const { error, warning } = countBySeverity(findings);
  const isStopped = publish && (error > 0 || (warning > 0 && !allowWarnings));
  if (isStopped) return report({ findings, policies: [], json, dryRun, stopped: true });
  const steps = await planSteps(client, files, publish);
  const policies: Pushed[] = [];
  for (const step of steps) {
    policies.push(pushed(step, dryRun ? step.stored : await execute(client, step, publish)));
  }
  return report({ findings, policies, json, dryRun, stopped: false });
}

async function planSteps(
  client: Client,
  files: readonly PolicyFile[],
  publish: boolean,
): Promise<readonly Step[]> {
  const { policies } = await client.call(listPolicies);
  return files.map((file) => {
    const versions = policies.filter(({ definition_id }) => definition_id === file.definition.id);
    const active = versions.find(({ lifecycle }) => lifecycle === 'published');
    if (active?.policy_hash === file.hash) return { file, outcome: 'unchanged', stored: active };
    const drafts = versions.filter(({ lifecycle }) => lifecycle === 'draft');
    const draft = drafts.find(({ policy_hash }) => policy_hash === file.hash) ?? drafts.at(-1);
    if (publish) return { file, outcome: 'published', stored: draft };
    if (draft?.policy_hash === file.hash) return { file, outcome: 'unchanged', stored: draft };
    return { file, outcome: draft === undefined ? 'created' : 'updated', stored: draft };
  });
}

async function execute(
  client: Client,
  { file, outcome, stored }: Step,
  publish: boolean,
): Promise<ChangedPolicy | undefined> {
  if (outcome === 'unchanged') return stored;
  const { definition, json, hash } = file;
  if (stored === undefined) {
    return client.call(createPolicy, {
      body: { name: definition.id, rules_json: json, publish },
    });
  }
  return client.call(updatePolicy, {
    params: { id: String(stored.id) },
    body: {
      // Fails if somebody changed the draft after it was read.
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
  if (json === true) printJson({ policies, findings, dry_run: dryRun, stopped });
  else {
    printLines([
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
  'Nothing was stored. Correct the findings; --allow-warnings publishes despite warnings, not despite errors.';

function pushedLine({ definition_id, file, outcome, id }: Pushed, dryRun: boolean): string {
  const result = dryRun && outcome !== 'unchanged' ? `would be ${outcome}` : outcome;
  return `${definition_id} (${file}): ${result}${id === undefined ? '' : `, policy ${id}`}`;
}

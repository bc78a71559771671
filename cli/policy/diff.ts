import type { PolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printJson, printLines } from '../support/terminal.ts';
import { describeChanges, describeRule, type PolicyChange } from './describe-changes.ts';
import { readPolicies } from './policy-files.ts';
import { type PublishedPolicy, publishedPolicies } from './stored-policies.ts';

interface Options extends ApiOptions {
  readonly all?: boolean;
  readonly json?: boolean;
}

interface Difference {
  readonly definition_id: string;
  readonly status: 'unchanged' | 'changed' | 'new' | 'only_published';
  readonly file?: string | undefined;
  readonly policy_hash?: string | undefined;
  readonly published?:
    | { readonly id: number; readonly version: number; readonly policy_hash: string }
    | undefined;
  readonly changes: readonly PolicyChange[];
}

/** `sallyport policy diff`. Exit code 1 if a file differs from the published policy. */
export async function diff(paths: readonly string[], options: Options): Promise<number> {
  const files = readPolicies(paths);
  const published = await publishedPolicies(apiClient(options));
  const differences = files.map((file) => compare(file, published));
  const withoutFile = published.filter(
    ({ definition }) => !files.some((file) => file.definition.id === definition.id),
  );
  const policies = [...differences, ...withoutFile.map(onlyPublished)];
  const counts = { unchanged: 0, changed: 0, new: 0, only_published: 0 };
  for (const { status } of policies) counts[status] += 1;
  if (options.json === true) printJson({ policies, counts });
  else printLines(policies.flatMap(differenceLines));
  const missing = options.all === true ? counts.only_published : 0;
  return counts.changed + counts.new + missing > 0 ? 1 : 0;
}

function compare(file: PolicyFile, published: readonly PublishedPolicy[]): Difference {
  const { definition, hash } = file;
  const now = published.find((one) => one.definition.id === definition.id);
  const about = { definition_id: definition.id, file: file.file, policy_hash: hash };
  if (now === undefined) {
    const changes = definition.rules.map((rule): PolicyChange => {
      return { kind: 'rule_added', rule: rule.name, text: describeRule(rule) };
    });
    return { ...about, status: 'new', changes };
  }
  const isSame = now.record.policy_hash === hash;
  return {
    ...about,
    status: isSame ? 'unchanged' : 'changed',
    published: reference(now),
    changes: isSame ? [] : describeChanges(now.definition, definition),
  };
}

function onlyPublished(one: PublishedPolicy): Difference {
  return {
    definition_id: one.definition.id,
    status: 'only_published',
    published: reference(one),
    changes: [],
  };
}

function reference({ record: { id, version, policy_hash } }: PublishedPolicy) {
  return { id, version, policy_hash };
}

const marks = {
  rule_added: '+',
  rule_removed: '-',
  rule_renamed: '~',
  rule_changed: '~',
  rules_reordered: '~',
  field_changed: '~',
} as const;

function differenceLines(one: Difference): readonly string[] {
  const { definition_id, status, file, published, changes } = one;
  switch (status) {
    case 'unchanged':
      return [`${definition_id} (${file}): same as published`];
    case 'only_published':
      return [`${definition_id}: published as policy ${published?.id}, has no file`];
    case 'new':
      return [
        `${definition_id} (${file}): not published, ${counted(changes.length, 'rule')}`,
        ...changes.map(changeLine),
      ];
    case 'changed':
      return [
        `${definition_id} (${file}): ${counted(changes.length, 'change')} from policy ${published?.id}`,
        ...changes.map(changeLine),
      ];
  }
}

function changeLine({ kind, rule, text }: PolicyChange): string {
  return `  ${marks[kind]} ${rule === undefined ? '' : `rule "${rule}": `}${text}`;
}

import { parseArgs } from 'node:util';
import type { PolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { describeChanges, type PolicyChange } from './changes.ts';
import { readPolicies } from './files.ts';
import { type PublishedPolicy, publishedPolicies } from './published.ts';
import { ruleWords } from './rule-words.ts';
import { count, say, sayJson } from './say.ts';

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

/** `sallyport policy diff`: exit code 1 when a file is not what is published. */
export async function diff(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, all: { type: 'boolean' } },
    allowPositionals: true,
  });
  const files = readPolicies(positionals);
  const published = await publishedPolicies(apiClient(values));
  const differences = files.map((file) => compare(file, published));
  const lone = published.filter(
    ({ definition }) => !files.some((file) => file.definition.id === definition.id),
  );
  const policies = [...differences, ...lone.map(withoutFile)];
  const counts = { unchanged: 0, changed: 0, new: 0, only_published: 0 };
  for (const { status } of policies) counts[status] += 1;
  if (values.json === true) sayJson({ policies, counts });
  else say(policies.flatMap(differenceLines));
  const missing = values.all === true ? counts.only_published : 0;
  return counts.changed + counts.new + missing > 0 ? 1 : 0;
}

function compare(file: PolicyFile, published: readonly PublishedPolicy[]): Difference {
  const { definition, hash } = file;
  const now = published.find((one) => one.definition.id === definition.id);
  const about = { definition_id: definition.id, file: file.file, policy_hash: hash };
  if (now === undefined) {
    const changes = definition.rules.map((rule): PolicyChange => {
      return { kind: 'rule_added', rule: rule.name, text: ruleWords(rule) };
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

function withoutFile(one: PublishedPolicy): Difference {
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
      return [`${definition_id} (${file}): as published`];
    case 'only_published':
      return [`${definition_id}: published as policy ${published?.id}, no file here`];
    case 'new':
      return [
        `${definition_id} (${file}): not published, ${count(changes.length, 'rule')}`,
        ...changes.map(changeLine),
      ];
    case 'changed':
      return [
        `${definition_id} (${file}): ${count(changes.length, 'change')} against policy ${published?.id}`,
        ...changes.map(changeLine),
      ];
  }
}

function changeLine({ kind, rule, text }: PolicyChange): string {
  return `  ${marks[kind]} ${rule === undefined ? '' : `rule "${rule}": `}${text}`;
}

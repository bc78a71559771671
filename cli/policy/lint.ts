import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import { readCaseFile } from '../../shared/policy-cases/read-cases.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { SourceError } from '../../shared/policy-cases/source.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { findFiles, readFile, refuseTwins } from './files.ts';
import {
  countBySeverity,
  type FileFinding,
  findingLines,
  invalidFile,
  lintFiles,
} from './findings.ts';
import { publishedPolicies } from './published.ts';
import { count, say, sayJson } from './say.ts';

/** `sallyport policy lint`: exit code 1 for errors and warnings, not for what is only noted. */
export async function lint(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, published: { type: 'boolean' } },
    allowPositionals: true,
  });
  const { policies, cases } = findFiles(positionals);
  if (policies.length + cases.length === 0) {
    throw new SettingsError(
      'There is nothing to lint: name files *.policy.yaml, *.policy.json, *.cases.yaml.',
    );
  }
  const invalid: FileFinding[] = [];
  const read = policies.flatMap((path) => attempt(() => readPolicyFile(readFile(path)), invalid));
  for (const path of cases) attempt(() => readCaseFile(readFile(path)), invalid);
  refuseTwins(read);
  const findings = [...invalid, ...(await findingsOf(read, values))];
  const counts = countBySeverity(findings);
  if (values.json === true) sayJson({ findings, counts });
  else {
    const { error, warning, info } = counts;
    say([
      ...findings.flatMap(findingLines),
      `${count(policies.length, 'policy', 'policies')}: ${count(error, 'error')}, ${count(warning, 'warning')}, ${count(info, 'note')}`,
    ]);
  }
  return counts.error + counts.warning > 0 ? 1 : 0;
}

async function findingsOf(
  files: readonly PolicyFile[],
  values: Parameters<typeof apiClient>[0] & { readonly published?: boolean | undefined },
): Promise<readonly FileFinding[]> {
  if (values.published !== true) return lintFiles(files);
  const published = await publishedPolicies(apiClient(values));
  return lintFiles(
    files,
    published.map(({ definition }) => definition),
  );
}

/** What is read, or nothing and a finding of what is wrong. */
function attempt<Read>(read: () => Read, invalid: FileFinding[]): readonly Read[] {
  try {
    return [read()];
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    invalid.push(invalidFile(error));
    return [];
  }
}

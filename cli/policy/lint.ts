import { SettingsError } from '../../shared/base/settings.ts';
import { readCaseFile } from '../../shared/policy-cases/read-cases.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { SourceError } from '../../shared/policy-cases/source.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printJson, printLines } from '../support/terminal.ts';
import {
  countBySeverity,
  type FileFinding,
  findingLines,
  invalidFile,
  lintFiles,
} from './findings.ts';
import { findFiles, readFile, refuseDuplicateIds } from './policy-files.ts';
import { publishedPolicies } from './stored-policies.ts';

interface Options extends ApiOptions {
  readonly published?: boolean;
  readonly json?: boolean;
}

/** `sallyport policy lint`. Exit code 1 for errors and warnings, 0 for notes. */
export async function lint(paths: readonly string[], options: Options): Promise<number> {
  const { policies, cases } = findFiles(paths);
  if (policies.length + cases.length === 0) {
    throw new SettingsError(
      'Found no file to lint. Name policies *.policy.yaml or *.policy.json, and cases *.cases.yaml.',
    );
  }
  const invalid: FileFinding[] = [];
  const read = policies.flatMap((path) => attempt(() => readPolicyFile(readFile(path)), invalid));
  for (const path of cases) attempt(() => readCaseFile(readFile(path)), invalid);
  refuseDuplicateIds(read);
  const findings = [...invalid, ...(await findingsOf(read, options))];
  const counts = countBySeverity(findings);
  if (options.json === true) printJson({ findings, counts });
  else {
    const { error, warning, info } = counts;
    printLines([
      ...findings.flatMap(findingLines),
      `${counted(policies.length, 'policy', 'policies')}: ${counted(error, 'error')}, ${counted(warning, 'warning')}, ${counted(info, 'note')}`,
    ]);
  }
  return counts.error + counts.warning > 0 ? 1 : 0;
}

async function findingsOf(
  files: readonly PolicyFile[],
  options: Options,
): Promise<readonly FileFinding[]> {
  if (options.published !== true) return lintFiles(files);
  const published = await publishedPolicies(apiClient(options));
  return lintFiles(
    files,
    published.map(({ definition }) => definition),
  );
}

/** Returns the result of `read`; an error in the file becomes a finding. */
function attempt<Read>(read: () => Read, invalid: FileFinding[]): readonly Read[] {
  try {
    return [read()];
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    invalid.push(invalidFile(error));
    return [];
  }
}

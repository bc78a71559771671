import fs from 'node:fs';
import { dirname, join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import type { SourceFile } from '../../shared/policy-cases/source.ts';

const policyForm = /\.policy\.(ya?ml|json)$/;
const caseForm = /\.cases\.(ya?ml|json)$/;
const filesMax = 5000;
/** Maximum size of a file that is read into memory. Policy and case files have lower limits. */
const bytesMax = 16 * 1024 * 1024;

interface FoundFiles {
  readonly policies: readonly string[];
  readonly cases: readonly string[];
}

/** The policy and case files at these paths, without duplicates; files of a folder are sorted by name. */
export function findFiles(paths: readonly string[]): FoundFiles {
  const found = new Set<string>();
  for (const path of paths.length === 0 ? ['.'] : paths) {
    const stat = statOf(path);
    if (stat.isDirectory()) walk(path, found);
    else if (stat.isFile()) found.add(join(path));
    else throw new SettingsError(`${path} is not a file or folder.`);
  }
  const all = [...found];
  return {
    policies: all.filter((path) => !caseForm.test(path)),
    cases: all.filter((path) => caseForm.test(path)),
  };
}

/** The policy files in the folder of this file, without its subfolders. */
export function policiesInSameFolder(path: string): readonly string[] {
  return entriesOf(dirname(path))
    .filter((entry) => entry.isFile() && policyForm.test(entry.name))
    .map(({ name }) => join(dirname(path), name));
}

/** Reads the policies at these paths: at least one, and no two with the same definition id. */
export function readPolicies(paths: readonly string[]): readonly PolicyFile[] {
  const { policies } = findFiles(paths);
  if (policies.length === 0) {
    const where = paths.length === 0 ? 'this folder' : paths.join(', ');
    throw new SettingsError(
      `Found no policy in ${where}. Name policy files *.policy.yaml or *.policy.json.`,
    );
  }
  const read = policies.map((path) => readPolicyFile(readFile(path)));
  refuseDuplicateIds(read);
  return read;
}

/**
 * Refuses two files with the same definition id, because only one of the two could be published.
 */
export function refuseDuplicateIds(files: readonly PolicyFile[]): void {
  const seen = new Map<string, string>();
  for (const { file, definition } of files) {
    const other = seen.get(definition.id);
    if (other !== undefined) {
      throw new SettingsError(
        `${other} and ${file} both have the id ${definition.id}, and only one policy of an id can be published. Change one id.`,
      );
    }
    seen.set(definition.id, file);
  }
}

export function readFile(path: string): SourceFile {
  const stat = statOf(path);
  if (!stat.isFile()) throw new SettingsError(`${path} is not a file.`);
  if (stat.size > bytesMax)
    throw new SettingsError(`${path} is larger than 16 MiB, too large for a policy.`);
  try {
    return { name: path, bytes: fs.readFileSync(path) };
  } catch (cause) {
    throw new SettingsError(`Cannot read ${path}.`, { cause });
  }
}

function walk(folder: string, found: Set<string>): void {
  for (const entry of entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!entry.name.startsWith('.') && entry.name !== 'node_modules') walk(path, found);
    } else if (entry.isFile() && (policyForm.test(entry.name) || caseForm.test(entry.name))) {
      if (found.size >= filesMax) {
        throw new SettingsError(`Found more than ${filesMax} policy files; name a smaller folder.`);
      }
      found.add(path);
    }
  }
}

function entriesOf(folder: string): readonly fs.Dirent[] {
  try {
    const entries = fs.readdirSync(folder, { withFileTypes: true });
    return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  } catch (cause) {
    throw new SettingsError(`Cannot read folder ${folder}.`, { cause });
  }
}

function statOf(path: string): fs.Stats {
  try {
    return fs.statSync(path);
  } catch (cause) {
    throw new SettingsError(`${path}: no such file or folder.`, { cause });
  }
}

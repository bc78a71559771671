import fs from 'node:fs';
import { dirname, join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import type { SourceFile } from '../../shared/policy-cases/source.ts';

const policyForm = /\.policy\.(ya?ml|json)$/;
const caseForm = /\.cases\.(ya?ml|json)$/;
const filesMax = 5000;
/** More than any policy or case file may have, and little enough to hold. */
const bytesMax = 16 * 1024 * 1024;

interface FoundFiles {
  readonly policies: readonly string[];
  readonly cases: readonly string[];
}

/** The policy and case files at these paths, each once, in their order; of folders by name. */
export function findFiles(paths: readonly string[]): FoundFiles {
  const found = new Set<string>();
  for (const path of paths.length === 0 ? ['.'] : paths) {
    const stat = statOf(path);
    if (stat.isDirectory()) walk(path, found);
    else if (stat.isFile()) found.add(join(path));
    else throw new SettingsError(`${path} is neither a file nor a folder.`);
  }
  const all = [...found];
  return {
    policies: all.filter((path) => !caseForm.test(path)),
    cases: all.filter((path) => caseForm.test(path)),
  };
}

/** The policy files in the folder of this file, not below it. */
export function policiesBeside(path: string): readonly string[] {
  return entriesOf(dirname(path))
    .filter((entry) => entry.isFile() && policyForm.test(entry.name))
    .map(({ name }) => join(dirname(path), name));
}

/** Reads the policies at these paths: at least one, and no two with the same definition id. */
export function readPolicies(paths: readonly string[]): readonly PolicyFile[] {
  const { policies } = findFiles(paths);
  if (policies.length === 0) {
    const where = paths.length === 0 ? 'this folder' : paths.join(', ');
    throw new SettingsError(`No policy is in ${where}: name files *.policy.yaml or *.policy.json.`);
  }
  const read = policies.map((path) => readPolicyFile(readFile(path)));
  refuseTwins(read);
  return read;
}

/** At most one published policy carries a definition id. */
export function refuseTwins(files: readonly PolicyFile[]): void {
  const seen = new Map<string, string>();
  for (const { file, definition } of files) {
    const other = seen.get(definition.id);
    if (other !== undefined) {
      throw new SettingsError(
        `${other} and ${file} both have the id ${definition.id}: only one of them can be published. Give one another id.`,
      );
    }
    seen.set(definition.id, file);
  }
}

export function readFile(path: string): SourceFile {
  const stat = statOf(path);
  if (!stat.isFile()) throw new SettingsError(`${path} is not a file.`);
  if (stat.size > bytesMax) throw new SettingsError(`${path} is too large for a policy.`);
  try {
    return { name: path, bytes: fs.readFileSync(path) };
  } catch (cause) {
    throw new SettingsError(`${path} cannot be read.`, { cause });
  }
}

function walk(folder: string, found: Set<string>): void {
  for (const entry of entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!entry.name.startsWith('.') && entry.name !== 'node_modules') walk(path, found);
    } else if (entry.isFile() && (policyForm.test(entry.name) || caseForm.test(entry.name))) {
      if (found.size >= filesMax) {
        throw new SettingsError(`More than ${filesMax} policy files: name a smaller folder.`);
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
    throw new SettingsError(`${folder} cannot be read.`, { cause });
  }
}

function statOf(path: string): fs.Stats {
  try {
    return fs.statSync(path);
  } catch (cause) {
    throw new SettingsError(`${path}: there is no such file or folder.`, { cause });
  }
}

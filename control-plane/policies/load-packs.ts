import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import { parsePolicy } from '../../shared/policy/language/validate.ts';

/** A folder of `packs`: the content of `pack.yaml`, and its policies. */
export interface PolicyPack {
  readonly pack: string;
  readonly title: string;
  readonly description: string;
  readonly policies: readonly {
    readonly definition: PolicyDefinition;
    readonly hash: string;
  }[];
}

const folder = join(import.meta.dirname, 'packs');
let loaded: Promise<readonly PolicyPack[]> | undefined;

/** Returns all packs of the program, sorted by name. Reads them only once. */
export function loadPacks(): Promise<readonly PolicyPack[]> {
  loaded ??= readPacks();
  return loaded;
}

export async function loadPack(name: string): Promise<PolicyPack> {
  const packs = await loadPacks();
  const found = packs.find(({ pack }) => pack === name);
  if (found) return found;
  throw new GatewayError('policy.pack_not_found', {
    message: `The policy pack does not exist; available: ${packs.map(({ pack }) => pack).join(', ')}.`,
  });
}

async function readPacks(): Promise<readonly PolicyPack[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return Promise.all(names.sort().map(readPack));
}

async function readPack(pack: string): Promise<PolicyPack> {
  const files = (await readdir(join(folder, pack))).sort();
  const read = async (file: string) => parse(await readFile(join(folder, pack, file), 'utf8'));
  const { title, description } = await read('pack.yaml');
  const definitions = await Promise.all(
    files.filter((file) => file.endsWith('.policy.yaml')).map(read),
  );
  const policies = definitions.map((value) => {
    const definition = parsePolicy(value);
    return { definition, hash: policyHash(definition) };
  });
  return { pack, title: String(title), description: String(description), policies };
}

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** Returns the cases of one golden file. Each has a `name` that states the guarantee. */
export function loadVectors<Case extends { readonly name: string }>(path: string): readonly Case[] {
  const text = readFileSync(join(import.meta.dirname, '..', 'vectors', path), 'utf8');
  return parse(text) as readonly Case[];
}

import type { JsonObject } from '../base/json.ts';
import type { PolicyDefinition } from '../policy/language/definition.ts';
import { policyHash } from '../policy/language/hash.ts';
import { parsePolicy } from '../policy/language/validate.ts';
import { atLine, readSource, type Source, type SourceFile } from './source.ts';

/** A valid policy from a file. */
export interface PolicyFile extends Pick<Source, 'file' | 'lineOf'> {
  readonly definition: PolicyDefinition;
  /** The definition in the form of the API. */
  readonly json: JsonObject;
  readonly hash: string;
}

/** Parses one policy from a YAML or JSON file; throws SourceError if it is invalid. */
export function readPolicyFile(given: SourceFile): PolicyFile {
  const source = readSource(given);
  const definition = atLine(source, () => parsePolicy(source.value));
  const { file, lineOf } = source;
  const json = source.value as JsonObject;
  return { file, lineOf, definition, json, hash: policyHash(definition) };
}

import { isUtf8 } from 'node:buffer';
import { type ErrorCode, LineCounter, parseDocument } from 'yaml';
import type { JsonValue } from '../base/json.ts';
import { parseStrictJson } from '../base/strict-json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { snapshotJson } from '../policy/language/json-bounds.ts';
import { jsonOf, UnreadableNode } from './yaml-value.ts';

/** A source file: its name for messages, and all its bytes. */
export interface SourceFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The content of a file, with the line of each part. */
export interface Source {
  readonly file: string;
  readonly value: JsonValue;
  /**
   * Returns the line (counted from 1) of a path such as `rules[0].when`, or of the nearest
   * enclosing part.
   */
  readonly lineOf: (path: string) => number;
}

/** Reports an unusable file. The message states the line, the problem and what to do. */
export class SourceError extends Error {
  override readonly name = 'SourceError';
  readonly file: string;
  readonly line: number;
  readonly problem: string;

  constructor(file: string, line: number, problem: string) {
    super(`${file}:${line}: ${problem}`);
    this.file = file;
    this.line = line;
    this.problem = problem;
  }
}

/** The maximum size of a policy. It also bounds the parsing time. */
const bytesMax = 1024 * 1024;

/**
 * Parses a YAML or JSON file (`.json`) that every parser reads as the same value: one document, no
 * tags, anchors or aliases, no duplicate keys, no ambiguous numbers or words.
 */
export function readSource({ name, bytes }: SourceFile): Source {
  if (bytes.length > bytesMax) {
    throw new SourceError(name, 1, `larger than ${bytesMax} bytes; split it into several files`);
  }
  if (!isUtf8(bytes)) throw new SourceError(name, 1, 'not UTF-8; save it as UTF-8');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  const lines = new LineCounter();
  const lineAt = (offset: number) => lines.linePos(offset).line;
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    schema: 'core',
    stringKeys: true,
    merge: false,
    // Disabled, because `jsonOf` checks for duplicate keys in linear time and can name the key.
    uniqueKeys: false,
  });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined)
    throw new SourceError(name, lineAt(problem.pos[0]), yamlProblem(problem));
  if (document.directives?.yaml.explicit === true) {
    throw new SourceError(name, 1, 'a %YAML directive; remove it, this is read as YAML 1.2');
  }
  if (document.contents === null) throw new SourceError(name, 1, 'empty');
  try {
    const { value, offsets } = jsonOf(document.contents);
    if (name.endsWith('.json')) parseStrictJson(bytes);
    const lineOf = (path: string) => lineAt(nearest(offsets, path));
    return { file: name, value: bounded(name, value, lineOf), lineOf };
  } catch (error) {
    if (error instanceof UnreadableNode) {
      throw new SourceError(name, lineAt(error.offset), error.message);
    }
    if (!(error instanceof GatewayError)) throw error;
    throw new SourceError(name, 1, `named .json, but not JSON: ${error.message}`);
  }
}

/** Runs a check of `value`. If the check refuses the value, throws an error with a line number. */
export function atLine<Result>(
  { file, lineOf }: Pick<Source, 'file' | 'lineOf'>,
  check: () => Result,
): Result {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'policy.invalid') throw error;
    const path = String(error.details?.path ?? '');
    const problem = path === '' ? error.message.replace('policy: ', '') : error.message;
    throw new SourceError(file, lineOf(path), problem);
  }
}

function bounded(file: string, value: JsonValue, lineOf: Source['lineOf']): JsonValue {
  return atLine({ file, lineOf }, () => snapshotJson(value));
}

/** Shortens the path until it matches an existing part. */
function nearest(offsets: ReadonlyMap<string, number>, path: string): number {
  for (let at = path; at !== ''; at = at.replace(lastStep, '')) {
    const offset = offsets.get(at);
    if (offset !== undefined) return offset;
    if (!lastStep.test(at)) break;
  }
  return offsets.get('') ?? 0;
}

const lastStep = /(\[[^[\]]*\]|\.?[^.[\]]+|[[\].])$/;

const quoted = 'put quotes around text that begins with this character, as in operator: ">="';

/** Replaces parser messages about grammar with messages about what to type. */
const advice: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: quoted,
  BAD_INDENT: 'is its closing bracket missing?',
  BAD_SCALAR_START: quoted,
  BLOCK_AS_IMPLICIT_KEY:
    'is the indentation different from the neighbouring lines? Text with ": " in it needs quotes',
  MULTILINE_IMPLICIT_KEY: 'is a colon, or the space after it, missing?',
  TAB_AS_INDENT: 'use spaces',
  TAG_RESOLVE_FAILED: quoted,
  UNEXPECTED_TOKEN: quoted,
};

function yamlProblem({
  code,
  message,
}: {
  readonly code: ErrorCode;
  readonly message: string;
}): string {
  if (code === 'MULTIPLE_DOCS') return 'several documents; use one file for each';
  const what = advice[code];
  return what === undefined ? message : `${message}: ${what}`;
}

import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type ParsedNode,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import type { JsonValue } from '../base/json.ts';
import { parseStrictJson } from '../base/strict-json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { joinPath, show } from '../policy/language/json-bounds.ts';

/** Reports a refused part of a YAML document, with its offset. */
export class UnreadableNode extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

interface YamlValue {
  readonly value: JsonValue;
  /** The offset of each part, by its path as `joinPath` formats it. */
  readonly offsets: ReadonlyMap<string, number>;
}

const depthMax = 64;

/** The JSON value of a YAML document that uses only JSON's data model. */
export function jsonOf(root: ParsedNode): YamlValue {
  const offsets = new Map<string, number>();
  const convert = (node: unknown, path: string, depth: number): JsonValue => {
    if (!isNode(node)) return null;
    const offset = node.range?.[0] ?? 0;
    if (!offsets.has(path)) offsets.set(path, offset);
    refuseExtras(node, offset);
    if (depth > depthMax) throw new UnreadableNode(offset, `nested deeper than ${depthMax} levels`);
    if (isSeq(node)) {
      return node.items.map((item, index) => convert(item, `${path}[${index}]`, depth + 1));
    }
    if (isMap(node)) {
      return Object.fromEntries(
        membersOf(node, path).map(({ key, at, value, path: below }) => {
          offsets.set(below, at);
          return [key, convert(value, below, depth + 1)];
        }),
      );
    }
    if (isScalar(node)) return scalarValue(node, offset);
    throw new UnreadableNode(offset, 'neither a mapping, a list nor a value');
  };
  return { value: convert(root, '', 0), offsets };
}

function refuseExtras(node: { readonly tag?: string | undefined }, offset: number): void {
  if (isAlias(node)) {
    throw new UnreadableNode(offset, `an alias (*${node.source}); replace it with its value`);
  }
  if ('anchor' in node && node.anchor !== undefined) {
    throw new UnreadableNode(
      offset,
      `an anchor (&${node.anchor}); remove it, because aliases are not allowed`,
    );
  }
  if (node.tag !== undefined) {
    throw new UnreadableNode(
      offset,
      `a tag (${node.tag}); remove it; use quotes to make a value text`,
    );
  }
}

interface Member {
  readonly key: string;
  readonly at: number;
  readonly path: string;
  readonly value: unknown;
}

function membersOf(map: YAMLMap, path: string): readonly Member[] {
  const seen = new Set<string>();
  return map.items.map(({ key: node, value }): Member => {
    if (!isScalar(node))
      throw new UnreadableNode(map.range?.[0] ?? 0, 'a key that is not text; quote it');
    const at = node.range?.[0] ?? 0;
    refuseExtras(node, at);
    const key = String(node.value ?? '');
    if (key === '<<') throw new UnreadableNode(at, 'a merge key (<<); write the members out');
    if (seen.has(key)) {
      throw new UnreadableNode(at, `the key ${show(key)} is given twice; remove one`);
    }
    seen.add(key);
    return { key, at, path: joinPath(path, key), value };
  });
}

/** Words that are booleans in YAML 1.1 and text in YAML 1.2. */
const ambiguousWord = /^(yes|no|on|off)$/i;
/** A number in YAML 1.1, text in YAML 1.2. */
const ambiguousNumber = /^[-+]?\d+(_\d+)+$/;

function scalarValue({ value, source = '', type }: Scalar, offset: number): JsonValue {
  if (typeof value === 'number') return exactNumber(value, source, offset);
  if (typeof value !== 'string') return value === true || value === false ? value : null;
  if (type !== 'PLAIN') return value;
  if (ambiguousWord.test(value)) {
    throw new UnreadableNode(offset, `${value}: write true or false, or quote it to mean the text`);
  }
  if (ambiguousNumber.test(value)) {
    throw new UnreadableNode(offset, `${value}: write the number without _, or quote the text`);
  }
  return value;
}

/** Refuses numbers that JSON cannot express: hexadecimal, octal, leading zero or plus, infinity. */
function exactNumber(value: number, source: string, offset: number): number {
  try {
    if (parseStrictJson(Buffer.from(source)) === value) return value;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (error.code === 'args.number_unsafe') {
      throw new UnreadableNode(
        offset,
        `${show(source)} cannot be stored exactly; round it, or quote it`,
      );
    }
  }
  throw new UnreadableNode(
    offset,
    `${source}: write the number as JSON does (10, -0.5, 1e3), or quote it to mean the text`,
  );
}

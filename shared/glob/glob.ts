import { GlobAutomaton } from './glob-automaton.ts';
import {
  accepts,
  type GlobKind,
  type GlobToken,
  isEverything,
  separatorCodes,
  separators,
  tokenise,
} from './glob-tokens.ts';

type GlobMatcher = (text: string) => boolean;

const cacheMax = 10_000;
/** Limit for all cached matchers of one kind together, in 32-bit words: 16 MiB. */
const cacheWordsMax = 4_194_304;

interface MatcherCache {
  readonly matchers: Map<string, GlobMatcher>;
  words: number;
}

const caches: Readonly<Record<GlobKind, MatcherCache>> = {
  tool: { matchers: new Map(), words: 0 },
  resource: { matchers: new Map(), words: 0 },
};

/**
 * Compiles a glob. `*` matches one or more characters within a segment, and `**` (or a longer run)
 * one or more characters of any kind. A `*` or `**` alone matches everything. All other characters
 * match themselves, case-sensitively. Matching takes linear time. Matchers are cached.
 */
export function compileGlob(pattern: string, kind: GlobKind): GlobMatcher {
  const cache = caches[kind];
  const known = cache.matchers.get(pattern);
  if (known !== undefined) return known;
  const { matcher, words } = build(pattern, kind);
  if (cache.matchers.size >= cacheMax || cache.words + words > cacheWordsMax) {
    cache.matchers.clear();
    cache.words = 0;
  }
  cache.matchers.set(pattern, matcher);
  cache.words += words;
  return matcher;
}

/** True when at least one of the globs matches. */
export function matchesAnyGlob(patterns: readonly string[], text: string, kind: GlobKind): boolean {
  for (const pattern of patterns) {
    if (pattern === text || compileGlob(pattern, kind)(text)) return true;
  }
  return false;
}

function build(
  pattern: string,
  kind: GlobKind,
): { readonly matcher: GlobMatcher; readonly words: number } {
  const simple = buildSimple(pattern, kind);
  if (simple !== undefined) return { matcher: simple, words: 0 };
  const prefix = literalStart(pattern);
  const suffix = literalEnd(pattern);
  const automaton = new GlobAutomaton(tokenise(pattern), kind);
  return {
    matcher: (text) => text.startsWith(prefix) && text.endsWith(suffix) && automaton.matches(text),
    words: automaton.size,
  };
}

/** Globs without a star, or with one star at the end, need no automaton. */
function buildSimple(pattern: string, kind: GlobKind): GlobMatcher | undefined {
  if (isEverything(pattern)) return () => true;
  const first = pattern.indexOf('*');
  if (first === -1) return (text) => text === pattern;
  const prefix = pattern.slice(0, first);
  const rest = pattern.slice(first);
  if (/^\*{2,}$/.test(rest)) {
    return (text) => text.length > prefix.length && text.startsWith(prefix);
  }
  if (rest !== '*') return undefined;
  return (text) =>
    text.length > prefix.length &&
    text.startsWith(prefix) &&
    isOneSegment(text, prefix.length, kind);
}

function isOneSegment(text: string, from: number, kind: GlobKind): boolean {
  return separators[kind].every((separator) => !text.includes(separator, from));
}

/** Remaining work for cover checks, counted down. One unit takes 10 to 20 ns. */
export interface GlobWork {
  left: number;
}

/** Limit for one check. */
const coverWorkMax = 200_000;
/** Limit for all pairs of one request, so that no request can block the process. */
export const clampWorkMax = 500_000;
/**
 * Cost of a step, in addition to one unit for each word of the state. `stateWork`: cost of storing
 * a state. `prepareWork`: cost of preparing one character of a glob.
 */
const stepWork = 4;
const stateWork = 16;
const prepareWork = 24;

/**
 * True if `general` matches every text that `specific` matches. The result is exact, because both
 * automata process all texts that `specific` matches. A pair that exceeds the budget counts as not
 * covered.
 */
export function globCovers(
  general: string,
  specific: string,
  kind: GlobKind,
  work: GlobWork = { left: coverWorkMax },
): boolean {
  if (isEverything(general) || general === specific) return true;
  if (!general.includes('*') || isEverything(specific)) return false;
  return (
    endsCover(endsOf(general), endsOf(specific)) && coversWithin(general, specific, kind, work)
  );
}

/** True if each specific glob is covered by one of the general ones. All pairs share the budget. */
export function everyGlobIsCovered(
  generals: readonly string[],
  specifics: readonly string[],
  kind: GlobKind,
): boolean {
  const work = { left: coverWorkMax };
  return specifics.every((specific) =>
    generals.some((general) => globCovers(general, specific, kind, work)),
  );
}

interface GlobEnds {
  readonly glob: string;
  readonly start: string;
  readonly end: string;
}

function endsOf(glob: string): GlobEnds {
  return { glob, start: literalStart(glob), end: literalEnd(glob) };
}

/**
 * True if `specific` begins with the literal text at the start of `general`, and ends with the
 * literal text at the end of `general`.
 */
function endsCover(general: GlobEnds, specific: GlobEnds): boolean {
  return specific.start.startsWith(general.start) && specific.end.endsWith(general.end);
}

/**
 * Checks one pair. Subtracts work from the budget before doing it, so that the work never exceeds
 * the budget.
 */
function coversWithin(general: string, specific: string, kind: GlobKind, work: GlobWork): boolean {
  const lengths = general.length + specific.length;
  const isText = !specific.includes('*');
  const each = (isText ? stepWork : prepareWork) + (general.length >>> 5);
  if (!charge(work, lengths * each)) return false;
  if (isText) return compileGlob(general, kind)(specific);
  const wide = new GlobAutomaton(tokenise(general), kind);
  const narrow = tokenise(specific);
  const apart = separatorCodes(kind);
  const alphabet = alphabetOf([...tokenise(general), ...narrow], apart);
  const seen = new Set<string>();
  const open = [{ at: 0, state: wide.start() }];
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const { at, state } = pair;
    if (!charge(work, stateWork * wide.words)) return false;
    const key = `${at}|${state.join()}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const token = narrow[at];
    if (token === undefined) {
      if (!wide.isSatisfied(state)) return false;
      continue;
    }
    for (const char of token.kind === 'literal' ? [token.char] : alphabet) {
      if (!charge(work, stepWork + wide.words)) return false;
      if (!accepts(token, char, apart)) continue;
      const moved = state.slice();
      if (!wide.step(moved, char)) return false;
      open.push({ at: at + 1, state: moved });
      if (token.kind !== 'literal') open.push({ at, state: moved });
    }
  }
  return true;
}

function charge(work: GlobWork, units: number): boolean {
  if (work.left < units) {
    work.left = 0;
    return false;
  }
  work.left -= units;
  return true;
}

function literalStart(pattern: string): string {
  const at = pattern.indexOf('*');
  return at === -1 ? pattern : pattern.slice(0, at);
}

function literalEnd(pattern: string): string {
  return pattern.slice(pattern.lastIndexOf('*') + 1);
}

/** Every character that either glob distinguishes, and one private-use character for all others. */
function alphabetOf(tokens: readonly GlobToken[], apart: readonly number[]): readonly number[] {
  const chars = new Set(apart);
  for (const token of tokens) if (token.kind === 'literal') chars.add(token.char);
  let other = 0xe000;
  while (chars.has(other)) other++;
  return [...chars, other];
}

/**
 * The requested tools (ids or globs) that one of the agent's capabilities covers completely,
 * without duplicates, in request order. A request that exceeds the budget gets fewer tools.
 */
export function clampTools(
  requested: readonly string[],
  capabilities: readonly string[],
  work: GlobWork = { left: clampWorkMax },
): readonly string[] {
  const known = new Set(capabilities);
  const asked = [...new Set(requested)];
  if (capabilities.some(isEverything)) return asked;
  const wide = byStart([...known].filter((capability) => capability.includes('*')));
  return asked.filter((tool) => {
    if (known.has(tool)) return true;
    return !isEverything(tool) && isCovered(endsOf(tool), wide, work);
  });
}

/**
 * Globs by the length of the text before their first star, then by this text. One look-up for each
 * length finds all candidates.
 */
type GlobsByStart = ReadonlyMap<number, ReadonlyMap<string, readonly GlobEnds[]>>;

function byStart(globs: readonly string[]): GlobsByStart {
  const lengths = new Map<number, Map<string, GlobEnds[]>>();
  for (const glob of globs) {
    const ends = endsOf(glob);
    const starts = lengths.get(ends.start.length) ?? new Map<string, GlobEnds[]>();
    lengths.set(ends.start.length, starts);
    const same = starts.get(ends.start) ?? [];
    starts.set(ends.start, same);
    same.push(ends);
  }
  return lengths;
}

function isCovered(tool: GlobEnds, wide: GlobsByStart, work: GlobWork): boolean {
  for (const [length, starts] of wide) {
    for (const { glob, end } of starts.get(tool.start.slice(0, length)) ?? []) {
      if (!charge(work, 1)) return false;
      if (tool.end.endsWith(end) && coversWithin(glob, tool.glob, 'tool', work)) return true;
    }
  }
  return false;
}

import {
  accepts,
  type GlobKind,
  type GlobToken,
  isEverything,
  separatorCodes,
  separators,
  staysAt,
  tokenise,
} from './glob-tokens.ts';

type GlobMatcher = (text: string) => boolean;

const cacheMax = 10_000;
const caches: Readonly<Record<GlobKind, Map<string, GlobMatcher>>> = {
  tool: new Map(),
  resource: new Map(),
};

/**
 * A matcher for a glob (design 15): `*` is one or more characters within a segment, `**` (or a
 * longer run) one or more characters of any kind, a lone `*` or `**` everything; all else stands
 * for itself, case included. Matching takes time linear in the text. Matchers are cached.
 */
export function compileGlob(pattern: string, kind: GlobKind): GlobMatcher {
  const cache = caches[kind];
  const known = cache.get(pattern);
  if (known !== undefined) return known;
  const matcher = build(pattern, kind);
  if (cache.size >= cacheMax) cache.clear();
  cache.set(pattern, matcher);
  return matcher;
}

/** True when at least one of the globs matches. */
export function matchesAnyGlob(patterns: readonly string[], text: string, kind: GlobKind): boolean {
  for (const pattern of patterns) {
    if (pattern === text || compileGlob(pattern, kind)(text)) return true;
  }
  return false;
}

function build(pattern: string, kind: GlobKind): GlobMatcher {
  if (isEverything(pattern)) return () => true;
  const first = pattern.indexOf('*');
  if (first === -1) return (text) => text === pattern;
  const prefix = pattern.slice(0, first);
  const rest = pattern.slice(first);
  if (/^\*{2,}$/.test(rest)) {
    return (text) => text.length > prefix.length && text.startsWith(prefix);
  }
  if (rest === '*') {
    return (text) =>
      text.length > prefix.length &&
      text.startsWith(prefix) &&
      isOneSegment(text, prefix.length, kind);
  }
  const apart = separatorCodes(kind);
  const tokens = tokenise(pattern);
  return (text) => text.startsWith(prefix) && run(tokens, text, apart);
}

function isOneSegment(text: string, from: number, kind: GlobKind): boolean {
  return separators[kind].every((separator) => !text.includes(separator, from));
}

/**
 * Follows all ways to match at once, so that no text can make it go back: `states[i]` is 1 when
 * the first `i` tokens are satisfied.
 */
function run(tokens: readonly GlobToken[], text: string, apart: readonly number[]): boolean {
  const states = startOf(tokens);
  for (let at = 0; at < text.length; at++) {
    if (!step(tokens, states, text.charCodeAt(at), apart)) return false;
  }
  return states[tokens.length] === 1;
}

function startOf(tokens: readonly GlobToken[]): Uint8Array {
  const states = new Uint8Array(tokens.length + 1);
  states[0] = 1;
  return states;
}

/** Moves every state by one character, in place from the last down; false when none is left. */
function step(
  tokens: readonly GlobToken[],
  states: Uint8Array,
  char: number,
  apart: readonly number[],
): boolean {
  let alive = false;
  for (let state = tokens.length; state >= 0; state--) {
    const stays = states[state] === 1 && staysAt(tokens[state], char, apart);
    const comes = states[state - 1] === 1 && accepts(tokens[state - 1], char, apart);
    states[state] = stays || comes ? 1 : 0;
    if (stays || comes) alive = true;
  }
  return alive;
}

const coverStepsMax = 20_000;
/** Of all pairs of one request together: nobody can keep the process busy with what they ask for. */
const clampStepsMax = 50_000;

/**
 * True when `general` matches whatever `specific` matches. Exact, by running both over every
 * text that `specific` allows; a pair too intricate to settle counts as not covered.
 */
export function globCovers(
  general: string,
  specific: string,
  kind: GlobKind,
  budget = { steps: coverStepsMax },
): boolean {
  if (isEverything(general) || general === specific) return true;
  if (isEverything(specific)) return false;
  if (!specific.includes('*')) return compileGlob(general, kind)(specific);
  // What `specific` leaves open, `general` must leave open too.
  if (!literalStart(specific).startsWith(literalStart(general))) return false;
  if (budget.steps <= 0) return false;
  const apart = separatorCodes(kind);
  const wide = tokenise(general);
  const narrow = tokenise(specific);
  const alphabet = alphabetOf([...wide, ...narrow], apart);
  const seen = new Set<string>();
  const open = [{ at: 0, states: startOf(wide) }];
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const { at, states } = pair;
    const key = `${at}|${states.join('')}`;
    if (seen.has(key)) continue;
    if (budget.steps <= 0 || seen.size >= coverStepsMax) return false;
    budget.steps -= 1;
    seen.add(key);
    if (at === narrow.length) {
      if (states[wide.length] !== 1) return false;
      continue;
    }
    for (const char of alphabet) {
      if (!accepts(narrow[at], char, apart)) continue;
      const moved = states.slice();
      step(wide, moved, char, apart);
      open.push({ at: at + 1, states: moved });
      if (staysAt(narrow[at], char, apart)) open.push({ at, states: moved });
    }
  }
  return true;
}

function literalStart(pattern: string): string {
  const at = pattern.indexOf('*');
  return at === -1 ? pattern : pattern.slice(0, at);
}

/** Every character that either glob tells apart, and one (a private-use one) for all others. */
function alphabetOf(tokens: readonly GlobToken[], apart: readonly number[]): readonly number[] {
  const chars = new Set(apart);
  for (const token of tokens) if (token.kind === 'literal') chars.add(token.char);
  let other = 0xe000;
  while (chars.has(other)) other++;
  return [...chars, other];
}

/**
 * The requested tools (ids or globs) that an agent may have: those that one of its capabilities
 * covers whole, each once, in the order asked for.
 */
export function clampTools(
  requested: readonly string[],
  capabilities: readonly string[],
): readonly string[] {
  const budget = { steps: clampStepsMax };
  return [...new Set(requested)].filter((tool) =>
    capabilities.some((capability) => globCovers(capability, tool, 'tool', budget)),
  );
}

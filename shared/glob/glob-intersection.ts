import { compileGlob } from './glob.ts';
import {
  accepts,
  type GlobKind,
  type GlobToken,
  isEverything,
  separatorCodes,
  tokenise,
} from './glob-tokens.ts';

/**
 * Remaining work for intersections, counted down. One step is one cell of the product automaton.
 */
export interface GlobBudget {
  steps: number;
}

type Intersection =
  | { readonly kind: 'common'; readonly text: string }
  | { readonly kind: 'none' | 'undecided' };

const none: Intersection = { kind: 'none' };
const undecided: Intersection = { kind: 'undecided' };

/** Enough for 30 pairs of the longest globs, or a million ordinary pairs; about 20 ms. */
const stepsMax = 2_000_000;
const filler = 'x';

/**
 * True if the globs are known to match a common text; false if the budget is exceeded. Use this
 * function where true grants a secret or a right.
 */
export function globsCertainlyIntersect(
  ones: readonly string[],
  others: readonly string[],
  kind: GlobKind,
  budget: GlobBudget = { steps: stepsMax },
): boolean {
  return intersectAny(ones, others, { kind, budget }).kind === 'common';
}

/**
 * False if the globs are known to match no common text; true if the budget is exceeded. Use this
 * function where true invalidates state or requires a permission.
 */
export function globsMayIntersect(
  ones: readonly string[],
  others: readonly string[],
  kind: GlobKind,
  budget: GlobBudget = { steps: stepsMax },
): boolean {
  return intersectAny(ones, others, { kind, budget }).kind !== 'none';
}

interface Question {
  readonly kind: GlobKind;
  readonly budget: GlobBudget;
}

function intersectAny(
  ones: readonly string[],
  others: readonly string[],
  { kind, budget }: Question,
): Intersection {
  let answer = none;
  for (const one of ones) {
    for (const other of others) {
      const found = intersectGlobs(one, other, kind, budget);
      if (found.kind === 'common') return found;
      if (found.kind === 'undecided') answer = undecided;
    }
  }
  return answer;
}

/**
 * Finds a text that both globs match. The result is exact, because the search explores the product
 * of both automata. The cost is the product of the globs' lengths.
 */
export function intersectGlobs(
  one: string,
  other: string,
  kind: GlobKind,
  budget: GlobBudget = { steps: stepsMax },
): Intersection {
  if (budget.steps <= 0) return undecided;
  budget.steps -= 1;
  if (isEverything(one)) return { kind: 'common', text: sampleOf(other) };
  if (isEverything(other)) return { kind: 'common', text: sampleOf(one) };
  if (!one.includes('*')) return ifMatches(one, compileGlob(other, kind)(one));
  if (!other.includes('*')) return ifMatches(other, compileGlob(one, kind)(other));
  if (!endsAgree(one, other)) return none;
  budget.steps -= one.length * other.length;
  if (budget.steps < 0) return undecided;
  const text = commonText(tokenise(one), tokenise(other), separatorCodes(kind));
  return text === undefined ? none : { kind: 'common', text };
}

function sampleOf(glob: string): string {
  return glob.replaceAll(/\*+/g, filler);
}

function ifMatches(text: string, matches: boolean): Intersection {
  return matches ? { kind: 'common', text } : none;
}

/**
 * True if the literal texts before the first star, and after the last star, are compatible. This
 * fast check rejects most pairs.
 */
function endsAgree(one: string, other: string): boolean {
  const [head, otherHead] = [one, other].map((glob) => glob.slice(0, glob.indexOf('*')));
  const [tail, otherTail] = [one, other].map((glob) => glob.slice(glob.lastIndexOf('*') + 1));
  const headsAgree = startsEither(head ?? '', otherHead ?? '', (a, b) => a.startsWith(b));
  return headsAgree && startsEither(tail ?? '', otherTail ?? '', (a, b) => a.endsWith(b));
}

function startsEither(
  one: string,
  other: string,
  begins: (longer: string, shorter: string) => boolean,
): boolean {
  return one.length >= other.length ? begins(one, other) : begins(other, one);
}

/** How a state of the product was first reached: by consuming both tokens, or one of them. */
const unreached = 0;
const start = 1;
const both = 2;
const oneOnly = 3;
const otherOnly = 4;

function commonText(
  ones: readonly GlobToken[],
  others: readonly GlobToken[],
  apart: readonly number[],
): string | undefined {
  const width = others.length + 1;
  const reached = new Uint8Array((ones.length + 1) * width);
  const reach = (at: number, how: number) => {
    if (reached[at] === unreached) reached[at] = how;
  };
  reached[0] = start;
  // Every move leads to a later cell, so one pass from the first to the last cell finds all
  // reachable cells.
  for (const [row, one] of ones.entries()) {
    for (const [column, other] of others.entries()) {
      const at = row * width + column;
      if (reached[at] === unreached || commonChar(one, other, apart) === undefined) continue;
      reach(at + width + 1, both);
      if (other.kind !== 'literal') reach(at + width, oneOnly);
      if (one.kind !== 'literal') reach(at + 1, otherOnly);
    }
  }
  return reached.at(-1) === unreached ? undefined : readBack(ones, others, { reached, apart });
}

function readBack(
  ones: readonly GlobToken[],
  others: readonly GlobToken[],
  { reached, apart }: { readonly reached: Uint8Array; readonly apart: readonly number[] },
): string {
  const chars: number[] = [];
  let [row, column] = [ones.length, others.length];
  for (;;) {
    const how = reached[row * (others.length + 1) + column];
    if (how === both || how === oneOnly) row -= 1;
    if (how === both || how === otherOnly) column -= 1;
    const char = commonChar(ones[row], others[column], apart);
    if (how === start || char === undefined) break;
    chars.push(char);
  }
  return chars
    .reverse()
    .map((char) => String.fromCharCode(char))
    .join('');
}

/** A character that both tokens can consume. */
function commonChar(
  one: GlobToken | undefined,
  other: GlobToken | undefined,
  apart: readonly number[],
): number | undefined {
  const literal = one?.kind === 'literal' ? one : other?.kind === 'literal' ? other : undefined;
  const char = literal?.char ?? filler.charCodeAt(0);
  return accepts(one, char, apart) && accepts(other, char, apart) ? char : undefined;
}

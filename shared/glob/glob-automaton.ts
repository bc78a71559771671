import { type GlobKind, type GlobToken, separatorCodes } from './glob-tokens.ts';

/** Bit `i` is set if the text up to now matches the first `i` tokens. */
type GlobState = Uint32Array;

/**
 * Simulates all possible matches of a glob at once, so that matching never backtracks. Each
 * character takes one operation per 32 tokens (bit-parallel, Shift-And).
 */
export class GlobAutomaton {
  readonly words: number;
  readonly #end: number;
  readonly #apart: readonly number[];
  /** Wildcard tokens that also match separators; `#open` contains all wildcard tokens. */
  readonly #across: GlobState;
  readonly #open: GlobState;
  readonly #literals = new Map<number, GlobState>();

  constructor(tokens: readonly GlobToken[], kind: GlobKind) {
    this.words = wordsOf(tokens);
    this.#end = tokens.length;
    this.#apart = separatorCodes(kind);
    this.#across = new Uint32Array(this.words);
    this.#open = new Uint32Array(this.words);
    for (const [at, token] of tokens.entries()) {
      if (token.kind === 'literal') setBit(this.#maskOf(token.char), at);
      else setBit(this.#open, at);
      if (token.kind === 'across') setBit(this.#across, at);
    }
  }

  /** The number of 32-bit words that the masks take in memory. */
  get size(): number {
    return (this.#literals.size + 2) * this.words;
  }

  start(): GlobState {
    const state = new Uint32Array(this.words);
    setBit(state, 0);
    return state;
  }

  /**
   * Updates `state` for the next character of the text. Returns false if no match is possible any
   * more.
   */
  step(state: GlobState, char: number): boolean {
    const wild = this.#apart.includes(char) ? this.#across : this.#open;
    const literal = this.#literals.get(char);
    let carry = 0;
    let alive = 0;
    for (let word = 0; word < this.words; word++) {
      const before = state[word] ?? 0;
      const stays = before & (wild[word] ?? 0);
      const comes = stays | (before & (literal?.[word] ?? 0));
      const after = stays | (comes << 1) | carry;
      carry = comes >>> 31;
      state[word] = after;
      alive |= after;
    }
    return alive !== 0;
  }

  isSatisfied(state: GlobState): boolean {
    return (((state[this.#end >>> 5] ?? 0) >>> (this.#end & 31)) & 1) === 1;
  }

  matches(text: string): boolean {
    const state = this.start();
    for (let at = 0; at < text.length; at++) {
      if (!this.step(state, text.charCodeAt(at))) return false;
    }
    return this.isSatisfied(state);
  }

  #maskOf(char: number): GlobState {
    const known = this.#literals.get(char);
    if (known !== undefined) return known;
    const mask = new Uint32Array(this.words);
    this.#literals.set(char, mask);
    return mask;
  }
}

/** Number of words in a state, which has one bit for each token and one for the end. */
export function wordsOf(tokens: readonly GlobToken[]): number {
  return (tokens.length >>> 5) + 1;
}

function setBit(state: GlobState, at: number): void {
  state[at >>> 5] = (state[at >>> 5] ?? 0) | (1 << (at & 31));
}

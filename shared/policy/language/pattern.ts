import { RE2JS, RE2JSException } from 're2js';

const instructionsMax = 1000;
/**
 * Instructions times characters of one search. Most searches take far fewer, but an agent can write
 * texts for which the engine gives up its shortcuts: then this many take most of a second.
 */
const stepsMax = 12_000_000;

interface Pattern {
  /** Instructions of the compiled program: what compiling and searching cost. */
  readonly size: number;
  /**
   * Whether the pattern is found anywhere in the text (not anchored); undefined when the text is
   * too long for a pattern of this size, by what both are alone: never by how long it takes.
   */
  search(text: string): boolean | undefined;
}

/**
 * Compiles a regular expression of RE2's syntax. Searching takes time linear in the text,
 * whatever the text; the factor is bounded by the size of the program. Throws an Error whose
 * message says what is wrong with the pattern.
 */
export function compilePattern(pattern: string): Pattern {
  const compiled = compileRe2(pattern);
  const size = compiled.programSize();
  if (size > instructionsMax) {
    throw new Error(`it compiles to more than ${instructionsMax} instructions`);
  }
  return {
    size,
    search: (text) => (size * text.length > stepsMax ? undefined : compiled.test(text)),
  };
}

function compileRe2(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSException) throw new Error(error.message, { cause: error });
    throw error;
  }
}

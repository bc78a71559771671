import { RE2JS, RE2JSException } from 're2js';

const instructionsMax = 1000;
/**
 * Maximum product of instructions and characters for one search. Most searches cost far less. If an
 * agent sends text that disables the engine's fast paths, this many steps take most of a second.
 */
const stepsMax = 12_000_000;

interface Pattern {
  /** Instructions of the compiled program; they determine the cost of compiling and searching. */
  readonly size: number;
  /**
   * True if the pattern matches anywhere in the text (not anchored). Undefined if the text is too
   * long for a pattern of this size; this limit never depends on elapsed time.
   */
  search(text: string): boolean | undefined;
}

/**
 * Compiles a regular expression in RE2 syntax. Searching takes time linear in the text, with a
 * factor bounded by the program size. Throws an Error that describes the problem.
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

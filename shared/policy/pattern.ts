import { RE2JS, RE2JSException } from 're2js';

const instructionsMax = 1000;

interface Pattern {
  /** Instructions of the compiled program: what compiling and searching cost. */
  readonly size: number;
  /** Whether the pattern is found anywhere in the text (not anchored). */
  search(text: string): boolean;
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
  return { size, search: (text) => compiled.test(text) };
}

function compileRe2(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSException) throw new Error(error.message, { cause: error });
    throw error;
  }
}

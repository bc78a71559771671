import type { ErrorCode } from 'yaml';

const quoted = 'put quotes around text that begins so, as in operator: ">="';

/** The parser speaks of its grammar; an author needs to know what to type. */
const advice: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: quoted,
  BAD_INDENT: 'is its closing bracket missing?',
  BAD_SCALAR_START: quoted,
  BLOCK_AS_IMPLICIT_KEY:
    'is the line indented unlike those beside it? Text with ": " in it needs quotes',
  MULTILINE_IMPLICIT_KEY: 'is a colon, or the space after it, missing?',
  TAB_AS_INDENT: 'use spaces',
  TAG_RESOLVE_FAILED: quoted,
  UNEXPECTED_TOKEN: quoted,
};

export function yamlProblem({
  code,
  message,
}: {
  readonly code: ErrorCode;
  readonly message: string;
}): string {
  if (code === 'MULTIPLE_DOCS') return 'several documents; make a file of each';
  const what = advice[code];
  return what === undefined ? message : `${message}: ${what}`;
}

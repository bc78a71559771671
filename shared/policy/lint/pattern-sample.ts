/**
 * Generates texts that a regular expression probably matches, as candidates for examples. The real
 * pattern verifies each text, so an unsupported construct can hide a finding but never causes a
 * false one.
 */
export function sampleTexts(pattern: string): readonly string[] {
  const source = pattern.replace(/^\(\?[a-z]+\)/, '');
  return splitAlternatives(source)
    .slice(0, alternativesMax)
    .map((one) => sampleSequence(one));
}

const alternativesMax = 6;

/** Splits a pattern at each `|` that is outside groups and classes. */
function splitAlternatives(source: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let inClass = false;
  let start = 0;
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at];
    if (char === '\\') at += 1;
    else if (inClass) inClass = char !== ']';
    else if (char === '[') inClass = true;
    else if (char === '(') depth += 1;
    else if (char === ')') depth -= 1;
    else if (char === '|' && depth === 0) {
      parts.push(source.slice(start, at));
      start = at + 1;
    }
  }
  return [...parts, source.slice(start)];
}

function sampleSequence(source: string): string {
  let text = '';
  for (let at = 0; at < source.length; ) {
    const { sample, end } = sampleAtom(source, at);
    const { times, end: next } = readRepeat(source, end);
    text += sample.repeat(times);
    at = next;
  }
  return text;
}

interface Sample {
  readonly sample: string;
  readonly end: number;
}

function sampleAtom(source: string, at: number): Sample {
  const char = source[at] ?? '';
  switch (char) {
    case '^':
    case '$':
      return { sample: '', end: at + 1 };
    case '.':
      return { sample: 'x', end: at + 1 };
    case '\\':
      return { sample: sampleEscape(source[at + 1] ?? ''), end: at + 2 };
    case '[': {
      const end = endOf(source, at, ']');
      return { sample: sampleClass(source.slice(at + 1, end)), end: end + 1 };
    }
    case '(': {
      const end = endOfGroup(source, at);
      const inner = source.slice(at + 1, end).replace(/^\?(?:P?<\w+>|[a-z]*:)/, '');
      return { sample: sampleSequence(splitAlternatives(inner)[0] ?? ''), end: end + 1 };
    }
    default:
      return { sample: char, end: at + 1 };
  }
}

function sampleEscape(char: string): string {
  if (/[bBAz]/.test(char)) return '';
  return { d: '1', w: 'x', s: ' ', D: 'x', W: ' ', S: 'x', n: '\n', t: '\t' }[char] ?? char;
}

const ordinary = [...'x1aA@.-_ /:', 'é'];

/**
 * Returns a character that a class matches, found with JavaScript's regular expressions, which are
 * similar enough.
 */
function sampleClass(inner: string): string {
  try {
    const tester = new RegExp(`^[${inner}]$`);
    return ordinary.find((char) => tester.test(char)) ?? inner[0] ?? '';
  } catch {
    return inner[0] ?? '';
  }
}

function endOf(source: string, at: number, closing: string): number {
  for (let end = at + 2; end < source.length; end += 1) {
    if (source[end] === '\\') end += 1;
    else if (source[end] === closing) return end;
  }
  return source.length;
}

function endOfGroup(source: string, at: number): number {
  let depth = 0;
  for (let end = at; end < source.length; end += 1) {
    const char = source[end];
    if (char === '\\') end += 1;
    else if (char === '[') end = endOf(source, end, ']');
    else if (char === '(') depth += 1;
    else if (char === ')') {
      depth -= 1;
      if (depth === 0) return end;
    }
  }
  return source.length;
}

const repeatsMax = 64;

function readRepeat(source: string, at: number): { readonly times: number; readonly end: number } {
  const found = /^(?:[*+?]|\{(\d+)(?:,\d*)?\})\??/.exec(source.slice(at, at + 16));
  if (found === null) return { times: 1, end: at };
  const times = Math.min(Number(found[1] ?? 1), repeatsMax);
  return { times, end: at + found[0].length };
}

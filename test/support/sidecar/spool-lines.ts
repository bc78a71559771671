import { spoolLinkHash } from '../../../shared/ledger/spool-head.ts';

/** Returns lines as the spool returns them: as bytes, each with its line feed. */
export function linesFrom(texts: readonly string[]): Buffer[] {
  return texts.map((text) => Buffer.from(`${text}\n`));
}

/** Returns the text of each of these lines. */
export function textsOf(lines: readonly Buffer[]): string[] {
  return lines.map((line) => {
    const text = line.toString();
    if (!text.endsWith('\n')) throw new Error(`not a line: ${text}`);
    return text.slice(0, -1);
  });
}

/** Returns the chain hash after these lines. */
export function linkedHash(lines: readonly Buffer[], after: string): string {
  return textsOf(lines).reduce(spoolLinkHash, after);
}

import fs from 'node:fs';
import { resolve } from 'node:path';
import type { PolicyFolder } from '../policy/policy-files.ts';

/** A command of a guide, and the output that the guide shows. */
export interface GuideCommand {
  readonly line: string;
  readonly printed: string;
}

/** A step of a guide: a file that the reader writes, or a command that the reader types. */
export type GuideStep =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | ({ readonly kind: 'command' } & GuideCommand);

const fence = /^```(\w+)\n([\s\S]*?)^```$/gm;

/** Returns a page of `docs/how-to`. */
export function howTo(name: string): string {
  return fs.readFileSync(resolve(import.meta.dirname, '../../../docs/how-to', name), 'utf8');
}

/**
 * Returns the steps of a Markdown page, in their order: its `console` blocks, and every other block
 * whose first line is a comment with a file name.
 */
export function guideSteps(page: string): readonly GuideStep[] {
  return [...page.matchAll(fence)].flatMap(([, language, text = '']): readonly GuideStep[] => {
    if (language === 'console') return commandsIn(text);
    const name = /^# (\S+)\n/.exec(text)?.[1];
    return name === undefined ? [] : [{ kind: 'file', name, text }];
  });
}

/** Returns the commands of a block. Lines that are indented by four spaces continue a command. */
function commandsIn(text: string): readonly GuideStep[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((block) => {
      const [line = ''] = /^.*\n(?: {4}.*\n)*/.exec(block) ?? [];
      return { kind: 'command', line: line.trimEnd(), printed: block.slice(line.length) };
    });
}

/**
 * Executes the steps. Returns the actual output of each command, and the output that the guide
 * shows.
 */
export async function follow(
  steps: readonly GuideStep[],
  folder: PolicyFolder,
): Promise<readonly (GuideCommand & { readonly really: string; readonly code: number })[]> {
  const done = [];
  for (const step of steps) {
    if (step.kind === 'file') folder.write(step.name, step.text);
    else {
      const { out, err, code } = await folder.shell(step.line);
      done.push({ line: step.line, printed: step.printed, really: out + err, code });
    }
  }
  return done;
}

/** Replaces the parts of an output that differ in every run: ids, times, and the column widths that depend on them. */
export function timeless(text: string): string {
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/\bev_\w+/g, 'EVENT')
    .replaceAll(/\b\d+ (ms|s|min|h)\b/g, 'SPAN')
    .replaceAll(/ {2,}/g, '  ');
}

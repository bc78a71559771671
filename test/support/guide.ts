import type { PolicyFolder } from './policy-files.ts';

/** A command of a guide, and what the guide says it prints. */
export interface GuideCommand {
  readonly line: string;
  readonly printed: string;
}

/** What one section of a Markdown file has a reader do: files to write and commands to type, in order. */
export type GuideStep =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | ({ readonly kind: 'command' } & GuideCommand);

const fence = /^```(\w+)\n([\s\S]*?)^```$/gm;

/** The steps between a heading and the next of its rank. */
export function guideSteps(markdown: string, heading: string): readonly GuideStep[] {
  const start = markdown.indexOf(`\n## ${heading}\n`);
  if (start === -1) throw new Error(`there is no section ${heading}`);
  const end = markdown.indexOf('\n## ', start + 1);
  const section = markdown.slice(start, end === -1 ? undefined : end);
  return [...section.matchAll(fence)].flatMap(([, language, text = '']): readonly GuideStep[] => {
    if (language === 'console') return commandsIn(text);
    const name = /^# (\S+)\n/.exec(text)?.[1];
    return name === undefined ? [] : [{ kind: 'file', name, text }];
  });
}

/** A command goes on in lines that are set in by four spaces. */
function commandsIn(text: string): readonly GuideStep[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((block) => {
      const [line = ''] = /^.*\n(?: {4}.*\n)*/.exec(block) ?? [];
      return { kind: 'command', line: line.trimEnd(), printed: block.slice(line.length) };
    });
}

/** Does what the guide says; what each command really printed, beside what it should have. */
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

/** Without what is another at every run: ids, times, and the widths that follow from them. */
export function timeless(text: string): string {
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/\bev_\w+/g, 'EVENT')
    .replaceAll(/\b\d+ (ms|s|min|h)\b/g, 'SPAN')
    .replaceAll(/ {2,}/g, '  ');
}

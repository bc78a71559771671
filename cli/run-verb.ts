import { nearestName } from '../shared/base/nearest-name.ts';
import { explain } from './explain.ts';
import { visible } from './table.ts';

/** Each runs with the words behind its name, and gives the exit code. */
export type Verbs = ReadonlyMap<string, (args: string[]) => Promise<number>>;

/** Names the nearest known name for a word that is none. */
export function reportUnknown(word: string, known: readonly string[]): void {
  if (word === '' || word.startsWith('-')) return;
  const shown = visible(word.slice(0, 60));
  console.error(
    `sallyport: there is no ${shown}. Did you mean ${nearestName(word.slice(0, 60), known)}?\n`,
  );
}

/** Runs the verb of a command that has several; what is none of them is answered by how it is used, and 2. */
export async function runVerb(
  usage: string,
  verbs: Verbs,
  [verb = '', ...args]: readonly string[],
): Promise<number> {
  if (verb === '--help' || args.includes('--help')) {
    console.log(usage);
    return 0;
  }
  const run = verbs.get(verb);
  if (run === undefined) {
    reportUnknown(verb, [...verbs.keys()]);
    console.error(usage);
    return 2;
  }
  try {
    return await run(args);
  } catch (error) {
    explain(error as Error);
    return 2;
  }
}

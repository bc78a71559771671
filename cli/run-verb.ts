import { explain } from './explain.ts';

/** Each runs with the words behind its name, and gives the exit code. */
export type Verbs = ReadonlyMap<string, (args: string[]) => Promise<number>>;

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

import { runVerb, type Verbs } from '../run-verb.ts';

const usage = `Usage: sallyport policy lint     [PATH …] [--published] [--json]
       sallyport policy test     [PATH …] [--json]
       sallyport policy diff     [PATH …] [--all] [--json]
       sallyport policy push     [PATH …] [--publish] [--allow-warnings] [--dry-run] [--json]
       sallyport policy backtest FILE [--last 7d | --from TIME] [--to TIME] [--alone] [--limit N] [--json]
       sallyport policy observed ID [--last 7d | --from TIME] [--to TIME] [--json]
       sallyport policy rollback ID [--to POLICY] [--dry-run] [--json]
       sallyport policy packs    [--json]
       sallyport policy install  PACK [--publish] [--mode MODE] [--json]

A PATH is a file or a folder, by default this one. In folders and those below, *.policy.yaml|json are
policies, *.cases.yaml|json their test cases. An ID is the one that a policy's file has.

  lint      what is invalid, or probably not meant; --published: together with what is published
  test      runs the cases on the policies that they name, or on those beside them
  diff      what is different from what is published, rule by rule; --all: and what has no file
  push      stores as drafts what is not stored yet; --publish puts it in force
  backtest  what the policy would have changed in past decisions, beside those published; --alone:
            as if it were the only one
  observed  what the published policy, in monitor or warn, would have decided
  rollback  puts in force what was in force before, or the policy that --to names; lint is not asked
  packs     the curated policies that there are
  install   stores a pack's policies as drafts; --publish puts them in force; --mode monitor only watches

Exit codes: 0 all is well, 1 there are findings, failures or differences, 2 it could not be done.
lint and test need no server. The others take --url URL and --key-file FILE, or
SALLYPORT_CONTROL_PLANE_URL and SALLYPORT_API_KEY. TIME is RFC 3339.`;

/** `sallyport policy …`: policies as files. */
export function policy(args: readonly string[]): Promise<number> {
  return runVerb(usage, verbs, args);
}

const verbs: Verbs = new Map([
  ['lint', async (args) => (await import('./lint.ts')).lint(args)],
  ['test', async (args) => (await import('./test.ts')).test(args)],
  ['diff', async (args) => (await import('./diff.ts')).diff(args)],
  ['push', async (args) => (await import('./push.ts')).push(args)],
  ['backtest', async (args) => (await import('./backtest.ts')).backtest(args)],
  ['observed', async (args) => (await import('./observed.ts')).observed(args)],
  ['rollback', async (args) => (await import('./rollback.ts')).rollback(args)],
  ['packs', async (args) => (await import('./packs.ts')).packs(args)],
  ['install', async (args) => (await import('./packs.ts')).install(args)],
]);

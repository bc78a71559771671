import { runVerb, type Verbs } from '../run-verb.ts';

const usage = `Usage: sallyport evidence verify FILE [--trust-key THUMBPRINT …] [--jwks FILE] [--checkpoint FILE] [--json]
       sallyport evidence export [--format json|md|csv|siem] [--dialect DIALECT] [FILTER …] [-o FILE]
       sallyport evidence jwks [-o FILE]
       sallyport evidence checkpoint [-o FILE]
       sallyport evidence stats [--by day|agent|tool] [--from TIME] [--to TIME] [--json]
       sallyport evidence tail [FILTER …] [--after CURSOR] [--count NUMBER] [--json]

  verify      an export, with nothing but the file and what you know: no server, no database; or an
              audit trail, which needs --jwks.
              --trust-key: the thumbprint of a key that you trust to sign exports, given to you by a
              way of your own; --jwks: the same as a file of keys, as jwks gives them out;
              --checkpoint: one of this ledger that you kept: what it covered must still be so
  export      the ledger as of now, or what passes every filter: --chain, --agent, --tool, --decision,
              --reason, --type, --from TIME, --to TIME. DIALECT, for siem: json, siem_a_hec, siem_b,
              syslog_cef, ocsf. Prints to standard error how many events it wrote
  jwks        the keys that evidence is verified with, active and retired
  checkpoint  what the ledger is now, in one signed page: keep it
  stats       events and decisions, counted by day, agent or tool; why was denied, how long humans took
  tail        events as they are sealed, a line each, until it is interrupted, or NUMBER came; goes on
              where it was when the connection breaks. --after: the cursor of an event

Exit codes of verify: 0 intact, and signed by a key that you trust; 1 there is a problem; 2 it could not be
done; 3 intact, but by no key that you trust: whoever made the file may have made its keys.
The others take --url URL and --key-file FILE, or SALLYPORT_CONTROL_PLANE_URL and SALLYPORT_API_KEY.`;

/** `sallyport evidence …`: evidence for whoever trusts neither server nor database. */
export function evidence(args: readonly string[]): Promise<number> {
  return runVerb(usage, verbs, args);
}

const verbs: Verbs = new Map([
  ['verify', async (args) => (await import('./verify.ts')).verify(args)],
  ['export', async (args) => (await import('./export.ts')).exportEvents(args)],
  ['checkpoint', async (args) => (await import('./published.ts')).checkpoint(args)],
  ['stats', async (args) => (await import('./stats.ts')).stats(args)],
  ['tail', async (args) => (await import('./tail.ts')).tail(args)],
  ['jwks', async (args) => (await import('./published.ts')).jwks(args)],
]);

import type { CallInput, Client } from '../../shared/contract/base/client.ts';
import { type BacktestReport, backtestPolicy } from '../../shared/contract/policies/trials.ts';
import { readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printable, printJson, table } from '../support/terminal.ts';
import { type PeriodOptions, periodQuery } from './period.ts';
import { readFile } from './policy-files.ts';

type Request = Extract<CallInput<typeof backtestPolicy>['body'], { readonly policy: unknown }>;
type Report = BacktestReport;

interface Options extends ApiOptions, PeriodOptions {
  readonly alone: boolean;
  readonly limit: number;
  readonly json?: boolean;
}

/** `sallyport policy backtest`. Exit code 1 if a past decision would change. */
export async function backtest(path: string, options: Options): Promise<number> {
  const { json: policy } = readPolicyFile(readFile(path));
  const request = { policy, beside: !options.alone, ...periodQuery(options, Date.now()) };
  const report = await readAll(apiClient(options), request, options.limit);
  if (options.json === true) printJson(report);
  else console.log(reportText(report));
  return report.changed > 0 ? 1 : 0;
}

/** The largest number of decisions in one response. */
const pageMax = 10_000;

/** Requests page after page until the end or the limit. */
async function readAll(client: Client, request: Request, limit: number): Promise<Report> {
  let report: Report | undefined;
  for (;;) {
    const rest = limit - (report?.examined ?? 0);
    const cursor = report?.next_cursor ?? undefined;
    const page = await client.call(backtestPolicy, {
      body: {
        ...request,
        limit: Math.min(rest, pageMax),
        ...(cursor === undefined ? {} : { cursor }),
      },
    });
    report = report === undefined ? page : add(report, page);
    if (report.next_cursor === null || report.examined >= limit) return report;
  }
}

function add(one: Report, next: Report): Report {
  const counts = { ...one.counts };
  for (const [kind, number] of Object.entries(next.counts)) {
    counts[kind] = (counts[kind] ?? 0) + number;
  }
  return {
    examined: one.examined + next.examined,
    changed: one.changed + next.changed,
    unknown: one.unknown + next.unknown,
    not_by_policy: one.not_by_policy + next.not_by_policy,
    counts,
    changes: [...one.changes, ...next.changes],
    unknowns: [...one.unknowns, ...next.unknowns],
    next_cursor: next.next_cursor,
  };
}

function reportText(report: Report): string {
  const { examined, changed, unknown, not_by_policy, counts, changes } = report;
  const kinds = Object.entries(counts).map(([kind, number]) => `  ${kind}: ${number}`);
  const sums = [
    `${counted(examined, 'past decision')}: ${changed} would change`,
    ...kinds,
    ...(unknown > 0 ? [`${unknown} unknown: ${unsure(report)}`] : []),
    ...(not_by_policy > 0 ? [`${not_by_policy} were not made by policies and do not change`] : []),
  ];
  const rows = changes.map((one) => [
    one.occurred_at,
    one.tool,
    one.agent_id,
    `${one.old} ${one.old_reason_code}`,
    `${one.new} ${one.reason_code ?? '?'}`,
    one.event_id,
  ]);
  const missing = changed - changes.length;
  return [
    ...sums.map(printable),
    ...(rows.length > 0
      ? ['', table(['WHEN', 'TOOL', 'AGENT', 'WAS', 'WOULD BE', 'EVENT'], rows)]
      : []),
    ...(missing > 0 ? [`and ${missing} more`] : []),
    ...(report.next_cursor === null ? [] : ['--limit was reached; more decisions match.']),
  ].join('\n');
}

/** The rules that need values that the ledger does not store. */
function unsure({ unknowns }: Report): string {
  const rules = [...new Set(unknowns.flatMap(({ unsure_rules }) => unsure_rules))];
  const more = rules.length > 3 ? ` and ${rules.length - 3} more` : '';
  return `${rules.slice(0, 3).join(', ')}${more} need values that the ledger does not keep`;
}

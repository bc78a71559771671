import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import type { CallInput, Client } from '../../shared/contract/base/client.ts';
import { type BacktestReport, backtestPolicy } from '../../shared/contract/policies/trials.ts';
import { readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { table, visible } from '../table.ts';
import { readFile } from './files.ts';
import { periodOf, periodOptions } from './period.ts';
import { count, sayJson } from './say.ts';

type Request = Extract<CallInput<typeof backtestPolicy>['body'], { readonly policy: unknown }>;
type Report = BacktestReport;

/** `sallyport policy backtest`: exit code 1 when a past decision would have been another. */
export async function backtest(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...apiOptions,
      alone: { type: 'boolean', default: false },
      ...periodOptions,
      limit: { type: 'string', default: '100000' },
    },
    allowPositionals: true,
  });
  const [path, ...others] = positionals;
  if (path === undefined || others.length > 0) {
    throw new SettingsError('Name the one policy file that is to be tried on the past.');
  }
  if (!/^[1-9]\d{0,6}$/.test(values.limit)) {
    throw new SettingsError('--limit: must be a number from 1 to 9999999.');
  }
  const { json } = readPolicyFile(readFile(path));
  const request = { policy: json, beside: !values.alone, ...periodOf(values, Date.now()) };
  const report = await readAll(apiClient(values), request, Number(values.limit));
  if (values.json === true) sayJson(report);
  else console.log(reportText(report));
  return report.changed > 0 ? 1 : 0;
}

/** As many decisions as one answer covers. */
const pageMax = 10_000;

/** Goes on from answer to answer, until all is examined or as much as was asked for. */
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
    `${count(examined, 'past decision')}: ${changed} would have been another`,
    ...kinds,
    ...(unknown > 0 ? [`${unknown} cannot be told: ${unsure(report)}`] : []),
    ...(not_by_policy > 0 ? [`${not_by_policy} were not made by policies, and stay`] : []),
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
    ...sums.map(visible),
    ...(rows.length > 0
      ? ['', table(['WHEN', 'TOOL', 'AGENT', 'WAS', 'WOULD BE', 'EVENT'], rows)]
      : []),
    ...(missing > 0 ? [`and ${missing} more`] : []),
    ...(report.next_cursor === null ? [] : ['There are more: --limit was reached.']),
  ].join('\n');
}

/** The rules that look at what the ledger does not keep. */
function unsure({ unknowns }: Report): string {
  const rules = [...new Set(unknowns.flatMap(({ unsure_rules }) => unsure_rules))];
  const more = rules.length > 3 ? ` and ${rules.length - 3} more` : '';
  return `${rules.slice(0, 3).join(', ')}${more} need values that the ledger does not keep`;
}

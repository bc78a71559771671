import {
  getObservedDecisions,
  type ObservedReport,
} from '../../shared/contract/policies/trials.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printJson, printLines } from '../support/terminal.ts';
import { type PeriodOptions, periodQuery } from './period.ts';
import { storedPolicies } from './stored-policies.ts';

interface Options extends ApiOptions, PeriodOptions {
  readonly json?: boolean;
}

/** `sallyport policy observed`. Exit code 1 if the policy would have refused calls. */
export async function observed(id: string, options: Options): Promise<number> {
  const query = periodQuery(options, Date.now());
  const client = apiClient(options);
  const { published } = await storedPolicies(client, id);
  const report = await client.call(getObservedDecisions, {
    params: { id: String(published.id) },
    query,
  });
  if (options.json === true) printJson(report);
  else printLines(reportLines(report));
  return report.would_refuse > 0 ? 1 : 0;
}

function reportLines(report: ObservedReport): readonly string[] {
  const { definition_id, policy_id, mode, matched, would_refuse, by_reason, examples } = report;
  return [
    `${definition_id} (${mode}, policy ${policy_id}): matched ${counted(matched, 'decision')}, would have refused ${would_refuse} that went through`,
    ...by_reason.map(({ decision, reason_code, count }) => {
      return `  ${decision} ${reason_code}: ${count}`;
    }),
    ...(examples.length > 0 ? [`such as ${examples.slice(0, 3).join(', ')}`] : []),
    ...(report.complete
      ? []
      : ['The count is incomplete: shorten the period with --last, or --from and --to.']),
  ];
}

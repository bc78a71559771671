import { parseArgs } from 'node:util';
import {
  getObservedDecisions,
  type ObservedReport,
} from '../../shared/contract/policies/trials.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { periodOf, periodOptions } from './period.ts';
import { count, say, sayJson } from './say.ts';
import { oneDefinitionId, storedPolicies } from './stored.ts';

/** `sallyport policy observed`: exit code 1 when the policy would have refused what went through. */
export async function observed(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, ...periodOptions },
    allowPositionals: true,
  });
  const id = oneDefinitionId(positionals);
  const query = periodOf(values, Date.now());
  const client = apiClient(values);
  const { inForce } = await storedPolicies(client, id);
  const report = await client.call(getObservedDecisions, {
    params: { id: String(inForce.id) },
    query,
  });
  if (values.json === true) sayJson(report);
  else say(reportLines(report));
  return report.would_refuse > 0 ? 1 : 0;
}

function reportLines(report: ObservedReport): readonly string[] {
  const { definition_id, policy_id, mode, matched, would_refuse, by_reason, examples } = report;
  return [
    `${definition_id} (${mode}, policy ${policy_id}): matched ${count(matched, 'decision')}, would have refused ${would_refuse} that went through`,
    ...by_reason.map(({ decision, reason_code, count: number }) => {
      return `  ${decision} ${reason_code}: ${number}`;
    }),
    ...(examples.length > 0 ? [`such as ${examples.slice(0, 3).join(', ')}`] : []),
    ...(report.complete ? [] : ['Not all was counted: narrow it with --last, or --from and --to.']),
  ];
}

import type { CallAnswer } from '../../shared/contract/base/client.ts';
import {
  deleteEnrolmentRule,
  listEnrolmentRules,
  putEnrolmentRule,
} from '../../shared/contract/enrolment-rules.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printJson, table } from '../support/terminal.ts';

interface Printing extends ApiOptions {
  readonly json?: boolean;
}

/** `sallyport sidecars rules list`. */
export async function listRules(options: Printing): Promise<number> {
  const listed = await apiClient(options).call(listEnrolmentRules);
  if (options.json === true) printJson(listed);
  else console.log(rulesTable(listed));
  return 0;
}

function rulesTable({ rules }: CallAnswer<typeof listEnrolmentRules>): string {
  if (rules.length === 0) {
    return 'No enrolment rules. Run `sallyport sidecars rules set` to write one.';
  }
  const head = ['RULE', 'SERVICE ACCOUNT', 'AGENT', 'USER', 'ENV', 'AUDIENCE', 'ISSUER'];
  const rows = rules.map((one) => [
    one.name,
    `${one.namespace}/${one.service_account}`,
    one.agent_id,
    one.user_id,
    one.environment,
    one.audience,
    one.issuer,
  ]);
  return table(head, rows);
}

interface RuleOptions extends Printing {
  readonly issuer: string;
  readonly audience: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly agent: string;
  readonly user: string;
  readonly environment: Environment;
}

/** `sallyport sidecars rules set`. */
export async function setRule(name: string, options: RuleOptions): Promise<number> {
  const { issuer, audience, namespace, serviceAccount, agent, user, environment } = options;
  const stored = await apiClient(options).call(putEnrolmentRule, {
    params: { name },
    body: {
      issuer,
      audience,
      namespace,
      service_account: serviceAccount,
      agent_id: agent,
      user_id: user,
      environment,
    },
  });
  if (options.json === true) {
    printJson(stored);
    return 0;
  }
  const { capabilities, revoked_sidecars: revoked } = stored;
  console.log(
    `Sidecars of ${namespace}/${serviceAccount} enrol as agent ${agent} for ${user} in ${environment}.`,
  );
  console.log(`They can call: ${capabilities.length === 0 ? 'nothing' : capabilities.join(', ')}`);
  if (revoked > 0) console.log(`Revoked ${counted(revoked, 'sidecar')} of the former rule.`);
  return 0;
}

/** `sallyport sidecars rules remove`. */
export async function removeRule(name: string, options: Printing): Promise<number> {
  const removed = await apiClient(options).call(deleteEnrolmentRule, { params: { name } });
  if (options.json === true) printJson(removed);
  else {
    const sidecars = counted(removed.revoked_sidecars, 'sidecar');
    console.log(`Removed the enrolment rule ${name}, and revoked ${sidecars} that it enrolled.`);
  }
  return 0;
}

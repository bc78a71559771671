import { Argument, type Command, Option } from '@commander-js/extra-typings';
import { workloadAudience } from '../../shared/contract/enrolment-rules.ts';
import { environments } from '../../shared/vocabulary/action.ts';
import { examples, exitWith, json, keyFile, url } from './options.ts';

const name = new Argument('<name>', 'name of the rule');

/** `sallyport sidecars rules`. */
export function declareEnrolmentRules(sidecars: Command): void {
  const rules = sidecars
    .command('rules')
    .summary('list, set and remove enrolment rules')
    .description(
      'An enrolment rule names a Kubernetes service account, and the agent that the sidecars of its pods enrol as.',
    )
    .usage('<command> [options]')
    .helpCommand(false);

  rules
    .command('list')
    .summary('list the enrolment rules')
    .description('Lists the enrolment rules of your tenant.')
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport sidecars rules list'))
    .action(
      exitWith(async (options) =>
        (await import('../operations/enrolment-rules.ts')).listRules(options),
      ),
    );

  declareSet(rules);

  rules
    .command('remove')
    .summary('remove a rule and revoke its sidecars')
    .description('Removes an enrolment rule, and revokes the sidecars that it enrolled.')
    .addArgument(name)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport sidecars rules remove refunds'))
    .action(
      exitWith(async (given, options) =>
        (await import('../operations/enrolment-rules.ts')).removeRule(given, options),
      ),
    );
}

const required = ['issuer', 'namespace', 'serviceAccount', 'agent', 'user'] as const;

function declareSet(rules: Command): void {
  rules
    .command('set')
    .summary('create or replace a rule')
    .description(
      'Creates or replaces an enrolment rule. If the rule changes, the sidecars that it enrolled are revoked, and enrol again under the new rule.',
    )
    .addArgument(name)
    .option('--issuer <url>', 'the issuer of the cluster’s tokens, exactly (required)')
    .option('--namespace <name>', 'namespace of the pods (required)')
    .option('--service-account <name>', 'service account of the pods (required)')
    .option('--agent <id>', 'id of the agent that the sidecars act for (required)')
    .option('--user <id>', 'id of the user that the agent works for (required)')
    .addOption(
      new Option('--environment <name>', 'environment of the sidecars')
        .choices(environments)
        .default('prod' as const),
    )
    .addOption(new Option('--audience <name>', 'audience of the tokens').default(workloadAudience))
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText(
      'after',
      examples(
        'sallyport sidecars rules set refunds --issuer https://kubernetes.default.svc.cluster.local --namespace billing --service-account refund-agent --agent 7 --user user_12',
      ),
    )
    .action(
      exitWith(async (given, options, self) => {
        for (const option of required) {
          if (options[option] !== undefined) continue;
          const flag = option.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`);
          return self.error(`error: missing required option '--${flag}'`);
        }
        const { setRule } = await import('../operations/enrolment-rules.ts');
        return setRule(given, options as Parameters<typeof setRule>[1]);
      }),
    );
}

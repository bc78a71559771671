import { type Command, Option } from '@commander-js/extra-typings';
import { environments } from '../../shared/vocabulary/action.ts';
import { declareEnrolmentRules } from './enrolment-rules.ts';
import { examples, exitWith, json, keyFile, url, wholeNumber } from './options.ts';

export function declareSidecars(program: Command): void {
  const sidecars = program
    .command('sidecars')
    .summary('list the fleet, create enrolment tokens and rules')
    .description(
      'Lists the sidecars of your tenant, and creates enrolment tokens and enrolment rules for new ones.',
    )
    .usage('<command> [options]')
    .helpCommand(false);

  sidecars
    .command('list')
    .summary('show the state of each sidecar')
    .description(
      'Shows what each sidecar reported: the section versions that it holds, the age of its data, its spool, its last decision. `3<4` means that the sidecar holds version 3 and version 4 is current.',
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport sidecars list'))
    .action(
      exitWith(async (options) => (await import('../operations/sidecars.ts')).listFleet(options)),
    );

  sidecars
    .command('token')
    .summary('create an enrolment token')
    .description(
      'Creates an enrolment token and prints it. Start a sidecar with the token in SALLYPORT_ENROLMENT_TOKEN.',
    )
    .option('--agent <id>', 'id of the agent that the sidecar acts for (required)')
    .option('--user <id>', 'id of the user that the agent works for (required)')
    .addOption(
      new Option('--environment <name>', 'environment of the sidecar')
        .choices(environments)
        .default('prod' as const),
    )
    .addOption(
      new Option('--uses <number>', 'number of sidecars that can enrol with the token')
        .argParser(wholeNumber(1, 1_000))
        .default(1),
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport sidecars token --agent 7 --user user_12'))
    .action(
      exitWith(async ({ agent, user, ...options }, self) => {
        if (agent === undefined) return self.error("error: missing required option '--agent <id>'");
        if (user === undefined) return self.error("error: missing required option '--user <id>'");
        const { createToken } = await import('../operations/sidecars.ts');
        return createToken({ agent, user, ...options });
      }),
    );

  declareEnrolmentRules(sidecars);
}

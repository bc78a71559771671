import { Argument, type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings';
import { approvalStates } from '../../shared/vocabulary/approval-states.ts';
import { grantScopes } from '../../shared/vocabulary/grant-terms.ts';
import { duration, examples, exitWith, json, keyFile, url, wholeNumber } from './options.ts';

const id = new Argument('<id>', 'id of the approval, from `sallyport approvals list`').argParser(
  (text: string) => {
    if (/^[1-9]\d{0,9}$/.test(text)) return text;
    throw new InvalidArgumentError('Ids of approvals are whole numbers.');
  },
);

const comment = new Option('--comment <text>', 'comment, for the record');

const load = () => import('../operations/approvals.ts');

export function declareApprovals(program: Command): void {
  const approvals = program
    .command('approvals')
    .summary('decide requests that wait for a human')
    .description(
      'Lists and decides requests that wait for a human. The principal of your API key is recorded as the decider; nobody can decide their own request.',
    )
    .usage('<command> [options]')
    .helpCommand(false);
  declareReading(approvals);
  declareApprove(approvals);

  approvals
    .command('deny')
    .summary('deny a request')
    .description('Denies a request.')
    .addArgument(id)
    .addOption(comment)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport approvals deny 12 --comment "the order was 900"'))
    .action(exitWith(async (one, options) => (await load()).decide('deny', one, options)));

  approvals
    .command('revoke')
    .summary('revoke the remaining uses of a grant')
    .description('Revokes the remaining uses of an approved request or standing grant.')
    .addArgument(id)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport approvals revoke 12'))
    .action(exitWith(async (one, options) => (await load()).revoke(one, options)));
}

function declareReading(approvals: Command): void {
  approvals
    .command('list')
    .summary('list requests that wait for a decision')
    .description('Lists requests that wait for a decision, newest first.')
    .addOption(
      new Option('--status <status>', 'list approvals of this status').choices(approvalStates),
    )
    .option('--all', 'list approvals of every status')
    .option('--agent <id>', 'list approvals of this agent')
    .addOption(
      new Option('--limit <number>', 'largest number of rows')
        .argParser(wholeNumber(1, 999))
        .default(100),
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport approvals list', 'sallyport approvals list --all'))
    .action(exitWith(async (options) => (await load()).list(options)));

  approvals
    .command('show')
    .summary('show a request with its arguments and votes')
    .description('Shows a request: the action with its arguments, the terms, the votes, the grant.')
    .addArgument(id)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport approvals show 12'))
    .action(exitWith(async (one, options) => (await load()).show(one, options)));
}

function declareApprove(approvals: Command): void {
  approvals
    .command('approve')
    .summary('approve a request, for one call or as a standing grant')
    .description(
      "Approves a request for one call. --uses, --ttl or --scope make it a standing grant, within the limits of the rule's approval.grant.",
    )
    .addArgument(id)
    .addOption(
      new Option('--uses <number>', 'number of calls that the grant allows').argParser(
        wholeNumber(1, 1_000),
      ),
    )
    .addOption(
      new Option('--ttl <duration>', 'lifetime of the grant, such as 30m or 1h').argParser(
        duration,
      ),
    )
    .addOption(
      new Option(
        '--scope <scope>',
        'action: the same action with the same arguments; tool: all actions of the tool that the rules ask about',
      ).choices(grantScopes),
    )
    .addOption(comment)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText(
      'after',
      examples(
        'sallyport approvals approve 12 --comment "ticket 77"',
        'sallyport approvals approve 12 --uses 5 --ttl 1h',
      ),
    )
    .action(exitWith(async (one, options) => (await load()).decide('approve', one, options)));
}

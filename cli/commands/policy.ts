import { Argument, type Command, Option } from '@commander-js/extra-typings';
import { modes } from '../../shared/vocabulary/action.ts';
import {
  duration,
  examples,
  exitWith,
  from,
  json,
  keyFile,
  to,
  url,
  wholeNumber,
} from './options.ts';

const paths = new Argument('[path...]', 'files or folders; by default the current folder');

const definitionId = new Argument('<id>', 'id in the policy file, such as refunds');

const last = new Option('--last <duration>', 'period until now, such as 7d or 12h').argParser(
  duration,
);
last.conflicts('from');

const dryRun = new Option('--dry-run', 'change nothing; print what would change');

export function declarePolicy(program: Command): void {
  const policy = program
    .command('policy')
    .summary('check, test, publish and backtest policy files')
    .description(
      `Works on policies as files. In folders, *.policy.yaml and *.policy.json are policies; *.cases.yaml and *.cases.json are their test cases. \`lint\` and \`test\` need no server.`,
    )
    .usage('<command> [options]')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExit codes: 0 no findings, 1 findings, failed cases or differences, 2 failed or used wrongly.',
    );
  declareLocal(policy);
  declareDiffAndPush(policy);
  declareTrials(policy);
  declareRollback(policy);
  declarePacks(policy);
}

function declareLocal(policy: Command): void {
  policy
    .command('lint')
    .summary('report errors and probable mistakes')
    .description('Reports errors and probable mistakes in policy files and case files.')
    .addArgument(paths)
    .option('--published', 'check the files together with the published policies')
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy lint', 'sallyport policy lint --published'))
    .action(
      exitWith(async (given, options) => (await import('../policy/lint.ts')).lint(given, options)),
    );

  policy
    .command('test')
    .summary('run test cases')
    .description(
      'Runs test cases on the policies that a case file names, or on those in the same folder. Reports rules that no case matches.',
    )
    .addArgument(paths)
    .addOption(json)
    .addHelpText('after', examples('sallyport policy test payouts.cases.yaml'))
    .action(
      exitWith(async (given, options) => (await import('../policy/test.ts')).test(given, options)),
    );
}

function declareDiffAndPush(policy: Command): void {
  policy
    .command('diff')
    .summary('compare files with the published policies')
    .description('Compares policy files with the published policies, rule by rule.')
    .addArgument(paths)
    .option('--all', 'count a published policy without a file as a difference')
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy diff'))
    .action(
      exitWith(async (given, options) => (await import('../policy/diff.ts')).diff(given, options)),
    );

  policy
    .command('push')
    .summary('store files as drafts, or publish them')
    .description(
      'Stores new and changed policy files as drafts. With --publish it publishes them, unless lint reports an error or a warning: then it stores nothing.',
    )
    .addArgument(paths)
    .option('--publish', 'publish the policies', false)
    .option('--allow-warnings', 'publish although lint reports warnings', false)
    .addOption(dryRun)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy push --publish'))
    .action(
      exitWith(async (given, options) => (await import('../policy/push.ts')).push(given, options)),
    );
}

function declareTrials(policy: Command): void {
  policy
    .command('backtest')
    .summary('replay past decisions with a policy file')
    .description(
      'Replays past decisions with a policy file and the published policies, and reports those that would change. By default it covers all decisions, oldest first.',
    )
    .argument('<file>', 'policy file')
    .addOption(last)
    .addOption(from)
    .addOption(to)
    .option('--alone', 'leave out the published policies', false)
    .addOption(
      new Option('--limit <number>', 'largest number of decisions to replay')
        .argParser(wholeNumber(1, 9_999_999))
        .default(100_000),
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy backtest refunds.policy.yaml --last 7d'))
    .action(
      exitWith(async (file, options) =>
        (await import('../policy/backtest.ts')).backtest(file, options),
      ),
    );

  policy
    .command('observed')
    .summary('count the calls that a policy in monitor or warn would have refused')
    .description(
      'Counts the calls that the published policy, in mode monitor or warn, would have refused.',
    )
    .addArgument(definitionId)
    .addOption(last)
    .addOption(from)
    .addOption(to)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy observed refunds --last 7d'))
    .action(
      exitWith(async (id, options) =>
        (await import('../policy/observed.ts')).observed(id, options),
      ),
    );
}

function declareRollback(policy: Command): void {
  policy
    .command('rollback')
    .summary('publish an earlier version again')
    .description(
      'Publishes the version of a policy that was published before, without its file and without lint.',
    )
    .addArgument(definitionId)
    .option('--to <policy>', 'number of the earlier policy to publish')
    .addOption(dryRun)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy rollback refunds'))
    .action(
      exitWith(async (id, options) =>
        (await import('../policy/rollback.ts')).rollback(id, options),
      ),
    );
}

function declarePacks(policy: Command): void {
  policy
    .command('packs')
    .summary('list the curated policies')
    .description('Lists the curated policies and what each of them stops.')
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy packs'))
    .action(exitWith(async (options) => (await import('../policy/packs.ts')).packs(options)));

  policy
    .command('install')
    .summary('store the policies of a pack as drafts, or publish them')
    .description('Stores the policies of a pack as drafts. With --publish it publishes them.')
    .argument('<pack>', 'name of the pack, from `sallyport policy packs`')
    .option('--publish', 'publish the policies', false)
    .addOption(
      new Option('--mode <mode>', 'mode of the policies; monitor refuses no call').choices(modes),
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport policy install payments --publish --mode monitor'))
    .action(
      exitWith(async (pack, options) =>
        (await import('../policy/packs.ts')).install(pack, options),
      ),
    );
}

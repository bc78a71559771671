import { type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings';
import { duration, examples, exitWith, json, keyFile, url } from './options.ts';

const waitMsMax = 10_000;

const wait = new Option(
  '--wait <duration>',
  'wait up to 10s for each live sidecar to confirm the change; exit 1 if one does not',
).argParser((text: string) => {
  const ms = duration(text);
  if (ms <= waitMsMax) return ms;
  throw new InvalidArgumentError('Use at most 10s, such as 5s or 500ms.');
});

export function declareKillSwitch(program: Command): void {
  const killSwitch = program
    .command('kill-switch')
    .summary('stop a tool or an agent now')
    .description('Stops a tool or an agent now, or makes enforcement stricter.')
    .usage('<command> [options]')
    .helpCommand(false);

  declareArm(killSwitch);

  killSwitch
    .command('list')
    .summary('list the armed kill switches')
    .description('Lists the armed kill switches.')
    .option('--all', 'include disarmed and expired ones')
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport kill-switch list --all'))
    .action(
      exitWith(async (options) =>
        (await import('../operations/kill-switches.ts')).listArmed(options),
      ),
    );

  killSwitch
    .command('disarm')
    .summary('disarm a kill switch')
    .description('Disarms a kill switch: the calls that it stopped are decided by policies again.')
    .argument('<id>', 'id of the kill switch, from `sallyport kill-switch list`')
    .addOption(wait)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport kill-switch disarm ks_01a2 --wait 5s'))
    .action(
      exitWith(async (id, options) =>
        (await import('../operations/kill-switches.ts')).disarm(id, options),
      ),
    );
}

function declareArm(killSwitch: Command): void {
  killSwitch
    .command('arm')
    .summary('stop a tool or an agent, or force a stricter mode')
    .description(
      'Arms a kill switch. Select calls with --tool, --agent or both: they are denied, or judged in the mode that --mode names.',
    )
    .option('--reason <text>', 'reason, for the record (required)')
    .option('--tool <glob>', "tools to stop, such as 'payments.**'")
    .option('--agent <id>', 'id of the agent to stop')
    .addOption(
      new Option('--mode <mode>', 'decide in this stricter mode, instead of denying').choices([
        'warn',
        'enforce',
        'strict',
      ] as const),
    )
    .option('--expires <time>', 'when the kill switch ends by itself, RFC 3339')
    .addOption(wait)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText(
      'after',
      examples(
        "sallyport kill-switch arm --tool 'payments.**' --reason 'incident 12' --wait 5s",
        "sallyport kill-switch arm --agent 7 --reason 'prompt injection'",
      ),
    )
    .action(
      exitWith(async ({ reason, tool, agent, mode, ...options }, self) => {
        if (reason === undefined) {
          return self.error("error: missing required option '--reason <text>'");
        }
        if (tool === undefined && agent === undefined && mode === undefined) {
          return self.error(
            'error: missing option that selects the calls to stop: --tool, --agent or --mode',
          );
        }
        const { arm } = await import('../operations/kill-switches.ts');
        return arm({ reason, tool, agent, mode, ...options });
      }),
    );
}

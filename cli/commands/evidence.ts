import { type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings';
import type { exportFormats } from '../../shared/ledger/bundle/statement.ts';
import { recordedDecisions } from '../../shared/ledger/recorded-decisions.ts';
import type { SiemDialect } from '../../shared/ledger/siem/dialects.ts';
import {
  examples,
  exitWith,
  from,
  json,
  keyFile,
  namesOf,
  output,
  to,
  url,
  wholeNumber,
} from './options.ts';

type ExportFormat = (typeof exportFormats)[number];

const formats = namesOf<ExportFormat>({ json: true, md: true, csv: true, siem: true });

const dialects = namesOf<SiemDialect>({
  json: true,
  siem_a_hec: true,
  siem_b: true,
  syslog_cef: true,
  ocsf: true,
});

// Filters of events. An event must match all given filters.
const chain = new Option('--chain <id>', 'events of this chain, such as agent:7');
const agent = new Option('--agent <id>', 'events of this agent');
const tool = new Option('--tool <name>', 'events of this tool');
const decision = new Option('--decision <decision>', 'events with this decision').choices(
  recordedDecisions,
);
const reason = new Option('--reason <code>', 'events with this reason code');
const type = new Option('--type <type>', 'events of this type, such as decision');

const trustKey = new Option(
  '--trust-key <thumbprint>',
  'thumbprint of a key that you trust to sign exports, received independently of the file; repeatable',
).argParser((text: string, previous: readonly string[] | undefined): readonly string[] => {
  if (/^[A-Za-z0-9_-]{43}$/.test(text)) return [...(previous ?? []), text];
  throw new InvalidArgumentError('A thumbprint has 43 characters: letters, digits, - and _.');
});

export function declareEvidence(program: Command): void {
  const evidence = program
    .command('evidence')
    .summary('export and verify the ledger')
    .description('Exports the ledger, verifies exports offline, and shows events.')
    .usage('<command> [options]')
    .helpCommand(false)
    .addHelpText('after', '\nExit codes: 0 done, 2 failed or used wrongly. `verify` has its own.');
  declareVerify(evidence);
  declareExport(evidence);
  declareKeysAndCheckpoint(evidence);
  declareStats(evidence);
  declareTail(evidence);
}

function declareVerify(evidence: Command): void {
  evidence
    .command('verify')
    .summary('verify an export or an audit trail offline')
    .description(
      'Verifies an export or an audit trail. Needs no server and no database, only the file and the keys that you trust. An audit trail needs --jwks.',
    )
    .argument('<file>', 'export or audit trail')
    .addOption(trustKey)
    .option('--jwks <file>', 'file of trusted keys, as `sallyport evidence jwks` writes it')
    .option('--checkpoint <file>', 'checkpoint that you kept: its events must be unchanged')
    .addOption(json)
    .addHelpText(
      'after',
      `
Exit codes: 0 intact and signed by a key that you trust; 1 altered or incomplete; 2 failed or used
wrongly; 3 intact but untrusted: the author of the file may have made its keys.
${examples('sallyport evidence verify evidence.json --jwks keys.json --checkpoint kept.txt')}`,
    )
    .action(
      exitWith(async (file, options) =>
        (await import('../evidence/verify.ts')).verify(file, options),
      ),
    );
}

function declareExport(evidence: Command): void {
  evidence
    .command('export')
    .summary('export the ledger, signed')
    .description(
      'Exports the current ledger, or the events that match all filters, with a signed statement. Reports the number of events on standard error.',
    )
    .addOption(
      new Option('--format <format>', 'format of the file')
        .choices(formats)
        .default('json' as const),
    )
    .addOption(new Option('--dialect <dialect>', 'dialect of format siem').choices(dialects))
    .addOption(chain)
    .addOption(agent)
    .addOption(tool)
    .addOption(decision)
    .addOption(reason)
    .addOption(type)
    .addOption(from)
    .addOption(to)
    .addOption(output)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText(
      'after',
      examples(
        'sallyport evidence export -o evidence.json',
        'sallyport evidence export --agent 2 --format csv -o agent-2.csv',
      ),
    )
    .action(
      exitWith(async (options) => (await import('../evidence/export.ts')).exportEvents(options)),
    );
}

function declareKeysAndCheckpoint(evidence: Command): void {
  evidence
    .command('jwks')
    .summary('write the keys that verify evidence')
    .description('Writes the active and retired keys that verify evidence, as a JSON Web Key Set.')
    .addOption(output)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport evidence jwks -o keys.json'))
    .action(
      exitWith(async (options) =>
        (await import('../evidence/jwks-and-checkpoint.ts')).jwks(options),
      ),
    );

  evidence
    .command('checkpoint')
    .summary('write a signed checkpoint of the ledger')
    .description(
      'Writes a signed checkpoint of the current ledger. Keep it, and pass it to `verify` later.',
    )
    .addOption(output)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport evidence checkpoint -o kept.txt'))
    .action(
      exitWith(async (options) =>
        (await import('../evidence/jwks-and-checkpoint.ts')).checkpoint(options),
      ),
    );
}

function declareStats(evidence: Command): void {
  evidence
    .command('stats')
    .summary('count events and decisions')
    .description(
      'Counts events and decisions, the reasons of denials, and the time that approvals took.',
    )
    .addOption(
      new Option('--by <group>', 'group the counts')
        .choices(['day', 'agent', 'tool'] as const)
        .default('day' as const),
    )
    .addOption(from)
    .addOption(to)
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport evidence stats --by tool'))
    .action(exitWith(async (options) => (await import('../evidence/stats.ts')).stats(options)));
}

function declareTail(evidence: Command): void {
  evidence
    .command('tail')
    .summary('follow events as they are sealed')
    .description(
      'Prints a line for each event as it is sealed, until Ctrl-C. Resumes after a broken connection without a gap.',
    )
    .addOption(chain)
    .addOption(agent)
    .addOption(tool)
    .addOption(decision)
    .addOption(reason)
    .addOption(type)
    .addOption(from)
    .addOption(to)
    .option('--after <cursor>', 'start after the event with this cursor')
    .addOption(
      new Option('--count <number>', 'exit after this number of events').argParser(
        wholeNumber(1, 999_999_999),
      ),
    )
    .addOption(json)
    .addOption(url)
    .addOption(keyFile)
    .addHelpText('after', examples('sallyport evidence tail --decision deny'))
    .action(exitWith(async (options) => (await import('../evidence/tail.ts')).tail(options)));
}

import type { Command } from '@commander-js/extra-typings';
import { examples, exitWith, json } from './options.ts';

const load = () => import('../database/vault.ts');

export function declareVault(program: Command): void {
  const vault = program
    .command('vault')
    .summary('show and rotate the master key')
    .description(
      'Shows and rotates the master key. Works on the database, with the settings of a control plane: DATABASE_URL, and SALLYPORT_MASTER_KEY with SALLYPORT_MASTER_KEY_PREVIOUS, or SALLYPORT_KMS_KEY.',
    )
    .usage('<command> [options]')
    .helpCommand(false);

  vault
    .command('status')
    .summary('show the master keys and what they wrap')
    .description(
      'Shows the master keys, the data keys that each wraps, and the keys that each control plane knows. Exits with 1 while a key other than the active one is needed.',
    )
    .addOption(json)
    .addHelpText('after', examples('sallyport vault status'))
    .action(exitWith(async (options) => (await load()).status(options)));

  vault
    .command('rotate-master-key')
    .summary('replace the master key without downtime')
    .description(
      'Replaces the master key while control planes serve. If it is interrupted, run it again.',
    )
    .addOption(json)
    .addHelpText('after', examples('sallyport vault rotate-master-key'))
    .action(exitWith(async (options) => (await load()).rotate(options)));

  vault
    .command('rewrap')
    .summary('wrap the master keys with the current version of the KMS key')
    .description('Has the KMS wrap its master keys with the current version of its own key.')
    .addOption(json)
    .addHelpText('after', examples('sallyport vault rewrap'))
    .action(exitWith(async (options) => (await load()).rewrap(options)));
}

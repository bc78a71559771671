import type { Command } from '@commander-js/extra-typings';
import { duration, examples, exitWith } from './options.ts';

export function declareReady(program: Command): void {
  program
    .command('ready')
    .summary('check that a control plane or sidecar is ready')
    .description(
      'Asks /readyz of a control plane or of the admin port of a sidecar. Exits with 1 and prints the failed checks if the program is not ready. For health checks of containers, whose image has no shell.',
    )
    .argument('<url>', 'address of the program, such as http://127.0.0.1:8080')
    .option('--wait <duration>', 'ask again until it is ready, for at most this time', duration)
    .addHelpText(
      'after',
      examples(
        'sallyport ready http://127.0.0.1:8080',
        'sallyport ready http://127.0.0.1:8182 --wait 60s',
      ),
    )
    .action(
      exitWith(async (url, { wait }) => (await import('../operations/ready.ts')).ready(url, wait)),
    );
}

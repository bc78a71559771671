import { type Command, Option } from '@commander-js/extra-typings';
import { duration, examples, exitWith } from './options.ts';

const load = () => import('../network/redirect.ts');

const uid = new Option('--uid <id>', 'user id of the sidecar').default('1337');
const port = new Option('--port <port>', "sidecar's port for redirected TCP connections").default(
  '15001',
);
const dnsPort = new Option(
  '--dns-port <port>',
  "sidecar's port for redirected DNS queries",
).default('15053');
const backend = new Option(
  '--backend <name>',
  'program that installs the rules (default: nftables, or iptables where nft is missing)',
).choices(['nftables', 'iptables'] as const);

export function declareNetwork(program: Command): void {
  const network = program
    .command('network')
    .summary('let packets leave a network namespace through the sidecar only')
    .description(
      "Redirects the connections and DNS queries of a network namespace, such as a pod's, to the sidecar in it, and rejects every other packet of other users. Each failure has a reason code (docs/reference/errors.md).",
    )
    .usage('<command> [options]')
    .helpCommand(false);
  declareApply(network);
  declareCheck(network);
  declareRemove(network);
  declareValidate(network);
}

function declareApply(network: Command): void {
  network
    .command('apply')
    .summary('install the rules')
    .description(
      'Installs the rules for IPv4 and IPv6 in the network namespace of this command. Needs the capability NET_ADMIN. Connections of other users that are open end. Do not run it in the network namespace of a host: the host would lose its network.',
    )
    .addOption(uid)
    .addOption(port)
    .addOption(dnsPort)
    .addOption(backend)
    .addHelpText('after', examples('sallyport network apply --uid 1337'))
    .action(exitWith(async (options) => (await load()).apply(options)));
}

function declareCheck(network: Command): void {
  network
    .command('check')
    .summary('compare the active rules with the expected ones')
    .description(
      'Exits with 0 if exactly the rules that `apply` installs with the same options are active, otherwise with 1 and a line with a reason code for each difference. Needs the capability NET_ADMIN.',
    )
    .addOption(uid)
    .addOption(port)
    .addOption(dnsPort)
    .addOption(backend)
    .addHelpText('after', examples('sallyport network check'))
    .action(exitWith(async (options) => (await load()).check(options)));
}

function declareRemove(network: Command): void {
  network
    .command('remove')
    .summary('remove the rules')
    .description(
      'Removes the rules that `apply` installed, of both backends, and no others. Needs the capability NET_ADMIN.',
    )
    .addHelpText('after', examples('sallyport network remove'))
    .action(exitWith(async () => (await load()).remove()));
}

function declareValidate(network: Command): void {
  network
    .command('validate')
    .summary('prove that the redirect works, before the agent starts')
    .description(
      "Connects to test addresses (192.0.2.1, 2001:db8::1) and asks them for a name, and exits with 1 unless the sidecar in this network namespace answers and other packets are rejected. Run it as another user than the sidecar's; it needs no capability.",
    )
    .addOption(uid)
    .addOption(port)
    .addOption(dnsPort)
    .addOption(
      new Option('--timeout <time>', 'how long to wait for a sidecar that is starting')
        .argParser(duration)
        .default(10_000, '10s'),
    )
    .addHelpText(
      'after',
      examples('sallyport network validate', 'sallyport network validate --timeout 1m'),
    )
    .action(
      exitWith(async (options) => (await import('../network/validate.ts')).validate(options)),
    );
}

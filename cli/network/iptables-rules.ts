import {
  type Chains,
  dockerDns,
  inboundMark,
  type RedirectSettings,
  sidecarMark,
} from './redirect-rules.ts';

export const families = ['IPv4', 'IPv6'] as const;
export type Family = (typeof families)[number];

/**
 * The order in which the tables are committed. The filter is first, so that it applies before the
 * other tables change.
 */
export const tables = ['filter', 'mangle', 'nat'] as const;
type Table = (typeof tables)[number];

/** For each table: the built-in chains, and the chain of ours to which each of them jumps. */
const hooks: Readonly<Record<Table, Readonly<Record<string, string>>>> = {
  filter: { OUTPUT: 'SALLYPORT_OUTGOING', FORWARD: 'SALLYPORT_FORWARDED' },
  mangle: {
    OUTPUT: 'SALLYPORT_MARK',
    INPUT: 'SALLYPORT_INCOMING',
    POSTROUTING: 'SALLYPORT_LEAVING',
  },
  nat: { OUTPUT: 'SALLYPORT_TO_SIDECAR' },
};

const anyOwner = '-m owner --uid-owner 0-4294967294';
const reply = '-p tcp -m conntrack --ctstate ESTABLISHED --ctdir REPLY -m connmark --mark';

/** The rules for packets that leave: the same as chain `permitted` of the nftables backend. */
function permitted(family: Family, uid: number, refuse: string): string[] {
  const neighbourDiscovery = [133, 135, 136].map(
    (type) => `-p ipv6-icmp -m icmp6 --icmpv6-type ${type} -j RETURN`,
  );
  return [
    `-m owner --uid-owner ${uid} -j RETURN`,
    `${reply} ${sidecarMark} -j RETURN`,
    `${reply} ${inboundMark} -j RETURN`,
    `${anyOwner} -j ${refuse}`,
    `-m conntrack --ctstate ESTABLISHED -m connmark --mark ${sidecarMark} -j RETURN`,
    ...(family === 'IPv6' ? neighbourDiscovery : []),
  ];
}

/** The rules of our chains in one table, as `iptables-save` lists them, without `-A CHAIN`. */
function tableChains(
  family: Family,
  { uid, port, dnsPort }: RedirectSettings,
): Readonly<Record<Table, Readonly<Record<string, readonly string[]>>>> {
  const loopback = family === 'IPv4' ? '127.0.0.0/8' : '::1/128';
  const unreachable = family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable';
  const mark = (value: string) => `-j CONNMARK --set-xmark ${value}/0xffffffff`;
  return {
    filter: {
      SALLYPORT_OUTGOING: [
        ...(family === 'IPv4'
          ? [
              `-d ${dockerDns}/32 -m owner --uid-owner ${uid} -j RETURN`,
              `-d ${dockerDns}/32 ${anyOwner} -j SALLYPORT_REFUSED`,
            ]
          : []),
        // Matches by address, because a redirected packet still has the output interface of its
        // original destination.
        `-d ${loopback} -j RETURN`,
        ...permitted(family, uid, 'SALLYPORT_REFUSED'),
        '-o lo -j RETURN',
        '-j DROP',
      ],
      SALLYPORT_REFUSED: [
        '-p tcp -j REJECT --reject-with tcp-reset',
        `-j REJECT --reject-with ${unreachable}`,
      ],
      SALLYPORT_FORWARDED: ['-j DROP'],
    },
    mangle: {
      SALLYPORT_MARK: [
        `-m owner --uid-owner ${uid} -m conntrack --ctdir ORIGINAL ${mark(sidecarMark)}`,
      ],
      SALLYPORT_INCOMING: [
        '-i lo -j RETURN',
        ...(family === 'IPv4' ? [`-d ${loopback} -j DROP`] : []),
        `-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m conntrack --ctstate NEW ${mark(inboundMark)}`,
      ],
      SALLYPORT_LEAVING: [
        '-o lo -j RETURN',
        `-s ${loopback} -j DROP`,
        `-d ${loopback} -j DROP`,
        ...permitted(family, uid, 'DROP'),
        '-j DROP',
      ],
    },
    nat: {
      SALLYPORT_TO_SIDECAR: [
        `-m owner --uid-owner ${uid} -j RETURN`,
        `-p udp -m udp --dport 53 -j REDIRECT --to-ports ${dnsPort}`,
        `-p tcp -m tcp --dport 53 -j REDIRECT --to-ports ${dnsPort}`,
        `-d ${loopback} -j RETURN`,
        `-p tcp -j REDIRECT --to-ports ${port}`,
      ],
    },
  };
}

const firstJump = (chain: string) => `-j ${chain}`;
const laterJump = (chain: string) => `-j ${chain}, after rules of another program`;

/** True for a line with which `parseIptables` states that other rules come first. */
export function isShadowed(line: string): boolean {
  return /^-j \S+, after rules of another program$/.test(line);
}

/** All chains of both families; the names are `FAMILY TABLE CHAIN`. */
export function iptablesChains(settings: RedirectSettings, family: Family): Chains {
  const chains = tableChains(family, settings);
  return new Map(
    tables.flatMap((table) => [
      ...Object.entries(hooks[table]).map(
        ([builtIn, chain]) => [`${family} ${table} ${builtIn}`, [firstJump(chain)]] as const,
      ),
      ...Object.entries(chains[table]).map(
        ([chain, rules]) => [`${family} ${table} ${chain}`, rules] as const,
      ),
    ]),
  );
}

/** Our chains in the output of `iptables-save`; empty if there are none. */
export function parseIptables(saved: string, family: Family): Chains {
  const chains = new Map<string, string[]>();
  const builtIn = new Map<string, string[]>();
  let table = '';
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, declared] = /^:(SALLYPORT_\S+) /.exec(line) ?? [];
    if (declared !== undefined) chains.set(`${family} ${table} ${declared}`, []);
    const [, chain = '', rule = ''] = /^-A (\S+) (.*)$/.exec(line) ?? [];
    if (chain === '') continue;
    const name = `${family} ${table} ${chain}`;
    if (chain.startsWith('SALLYPORT_')) chains.get(name)?.push(rule.trim());
    else builtIn.set(name, [...(builtIn.get(name) ?? []), rule.trim()]);
  }
  for (const [name, rules] of builtIn) {
    const ours = rules.filter((rule) => /^-j SALLYPORT_/.test(rule));
    const chain = ours[0]?.slice('-j '.length);
    if (chain === undefined) continue;
    const isFirst = rules[0] === ours[0] && ours.length === 1;
    chains.set(name, [isFirst ? firstJump(chain) : laterJump(chain)]);
  }
  return chains;
}

/** The file for `iptables-restore --noflush`, which commits each table in one step. */
export function iptablesFile(family: Family, settings: RedirectSettings, saved: string): string {
  const chains = tableChains(family, settings);
  return restoreFile((table) => {
    const names = Object.keys(chains[table]);
    return [
      ...names.map((chain) => `:${chain} - [0:0]`),
      ...jumpsIn(saved, table).map((jump) => `-D ${jump}`),
      ...Object.entries(chains[table]).flatMap(([chain, rules]) =>
        rules.map((rule) => `-A ${chain} ${rule}`),
      ),
      ...Object.entries(hooks[table]).map(([builtIn, chain]) => `-I ${builtIn} 1 -j ${chain}`),
    ];
  });
}

/** The file that removes our chains and the jumps to them, and nothing else. */
export function iptablesRemoval(saved: string): string {
  return restoreFile((table) => {
    const names = sectionOf(saved, table).flatMap(
      (line) => /^:(SALLYPORT_\S+) /.exec(line)?.[1] ?? [],
    );
    return [
      ...names.map((chain) => `:${chain} - [0:0]`),
      ...jumpsIn(saved, table).map((jump) => `-D ${jump}`),
      ...names.map((chain) => `-X ${chain}`),
    ];
  });
}

function restoreFile(linesOf: (table: Table) => readonly string[]): string {
  return tables
    .map((table) => ({ table, lines: linesOf(table) }))
    .filter(({ lines }) => lines.length > 0)
    .map(({ table, lines }) => `*${table}\n${lines.join('\n')}\nCOMMIT\n`)
    .join('');
}

/** Jumps from built-in chains to ours: `OUTPUT -j SALLYPORT_…`. */
function jumpsIn(saved: string, table: Table): string[] {
  return sectionOf(saved, table).flatMap(
    (line) => /^-A ((?!SALLYPORT_)\S+ .*-j SALLYPORT_\S+)$/.exec(line)?.[1] ?? [],
  );
}

function sectionOf(saved: string, table: Table): readonly string[] {
  const [, section = ''] = saved.split(`*${table}\n`);
  return (section.split('\nCOMMIT')[0] ?? '').split('\n');
}

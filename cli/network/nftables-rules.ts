import {
  type Chains,
  dockerDns,
  inboundMark,
  type RedirectSettings,
  sidecarMark,
} from './redirect-rules.ts';

// Numbers as `nft --numeric` lists them.
const tcp = 'meta l4proto 6';
const established = 'ct state 0x2';
const fresh = 'ct state 0x8';
const originalDirection = 'ct direction 0';
const replyDirection = 'ct direction 1';
const synOnly = 'tcp flags & 0x17 == 0x2';
const neighbourDiscovery = 'icmpv6 type { 133, 135, 136 }';

/**
 * The chains of `table inet sallyport`. A packet without `meta skuid` has no socket: the kernel sent
 * it, or the socket was closed before its last packets left.
 */
export function nftablesChains({ uid, port, dnsPort }: RedirectSettings): Chains {
  return new Map([
    [
      'to_sidecar',
      [
        // This priority comes before Docker's nat rules, which redirect queries to Docker's own DNS
        // server.
        'type nat hook output priority -110; policy accept;',
        `meta skuid ${uid} return`,
        // These rules come before the loopback rules, because a DNS server on loopback may forward
        // queries to other networks.
        `udp dport 53 redirect to :${dnsPort}`,
        `tcp dport 53 redirect to :${dnsPort}`,
        'ip daddr 127.0.0.0/8 return',
        'ip6 daddr ::1 return',
        `${tcp} redirect to :${port}`,
      ],
    ],
    [
      'permitted',
      [
        `meta skuid ${uid} accept`,
        `${tcp} ${established} ${replyDirection} ct mark ${sidecarMark} accept`,
        `${tcp} ${established} ${replyDirection} ct mark ${inboundMark} accept`,
        `meta skuid != ${uid} return`,
        `${established} ct mark ${sidecarMark} accept`,
        `${neighbourDiscovery} accept`,
      ],
    ],
    ['refused', [`${tcp} reject with tcp reset`, 'reject']],
    [
      'outgoing',
      [
        'type filter hook output priority 0; policy drop;',
        `meta skuid ${uid} ${originalDirection} ct mark set ${sidecarMark}`,
        `ip daddr ${dockerDns} meta skuid != ${uid} goto refused`,
        // Matches by address, because a redirected packet still has the output interface of its
        // original destination.
        'ip daddr 127.0.0.0/8 accept',
        'ip6 daddr ::1 accept',
        'jump permitted',
        `meta skuid != ${uid} goto refused`,
        // Accepts the rejections that the kernel sends for chain `refused`.
        'oif "lo" accept',
      ],
    ],
    [
      'leaving',
      [
        // This priority comes before source addresses are translated back. A response of the
        // sidecar to a forged source address then still has its loopback address.
        'type filter hook postrouting priority -150; policy drop;',
        'oif "lo" accept',
        'ip saddr 127.0.0.0/8 drop',
        'ip daddr 127.0.0.0/8 drop',
        'ip6 saddr ::1 drop',
        'ip6 daddr ::1 drop',
        'jump permitted',
      ],
    ],
    [
      'incoming',
      [
        'type filter hook input priority 0; policy accept;',
        'iif "lo" return',
        'ip daddr 127.0.0.0/8 drop',
        // SYN only: conntrack also counts a packet of an unknown older connection as new.
        `${synOnly} ${fresh} ct mark set ${inboundMark}`,
      ],
    ],
    ['forwarded', ['type filter hook forward priority 0; policy drop;']],
  ]);
}

/** The file for `nft -f`. nft applies it in one transaction, for both address families. */
export function nftablesFile(settings: RedirectSettings): string {
  const chains = [...nftablesChains(settings)].map(
    ([name, lines]) => `\tchain ${name} {\n${lines.map((line) => `\t\t${line}\n`).join('')}\t}\n`,
  );
  // Creates the table if it does not exist, because deleting a missing table would fail.
  return `table inet sallyport\ndelete table inet sallyport\ntable inet sallyport {\n${chains.join('')}}\n`;
}

/** Parses the output of `nft --numeric list table inet sallyport`. */
export function parseNftables(listing: string): Chains {
  const chains = new Map<string, string[]>();
  let rules: string[] | undefined;
  for (const line of listing.split('\n').map((text) => text.trim())) {
    const [, name] = /^chain (\S+) \{$/.exec(line) ?? [];
    if (name !== undefined) {
      rules = [];
      chains.set(name, rules);
    } else if (line !== '' && line !== '}' && !/^table inet sallyport\b/.test(line)) {
      if (rules === undefined) chains.set(line, []);
      else rules.push(joinedFlags(line));
    } else if (line === '}') {
      rules = undefined;
    }
  }
  return chains;
}

/** nft 1.0 lists `tcp flags & 0x17 == 0x2` as `tcp flags 0x2 / 0x1,0x2,0x4,0x10`. */
function joinedFlags(line: string): string {
  return line.replace(
    /tcp flags (0x[0-9a-f]+) \/ (0x[0-9a-f]+(?:,0x[0-9a-f]+)*)/,
    (_, value: string, mask: string) => {
      const bits = mask.split(',').reduce((sum, flag) => sum | Number(flag), 0);
      return `tcp flags & 0x${bits.toString(16)} == ${value}`;
    },
  );
}

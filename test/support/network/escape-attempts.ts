import type { Agent } from './lab.ts';

/** The result that the agent observes; `agent/observe.py` explains the values. */
type Observed = 'sidecar' | 'rejected' | 'silence' | 'refused';

export interface EscapeAttempt {
  /** Unique. */
  readonly title: string;
  /** The name of a function in `agent/*.py`, with its arguments. */
  readonly program: readonly [string, ...string[]];
  readonly agent?: Agent;
  /**
   * True if a frame leaves the pod when there are no rules; false if the kernel alone prevents
   * this.
   */
  readonly leavesWithoutRules: boolean;
  /** The result with the rules. No frame leaves the pod. */
  readonly observed: Observed;
}

const netRaw: Agent = { capabilities: ['net_raw'] };
const v4 = '8.8.8.8';
const v6 = '2001:4860:4860::8888';

function attempt(
  title: string,
  program: EscapeAttempt['program'],
  observed: Observed,
  options: Partial<Pick<EscapeAttempt, 'agent' | 'leavesWithoutRules'>> = {},
): EscapeAttempt {
  return { title, program, observed, leavesWithoutRules: true, ...options };
}

const unaided = { leavesWithoutRules: false } as const;

const tcp: readonly EscapeAttempt[] = [
  attempt('TCP to an IPv4 address', ['tcp', v4, '443'], 'sidecar'),
  attempt('TCP to an IPv6 address', ['tcp', v6, '443'], 'sidecar'),
  attempt('TCP to an IPv4-mapped IPv6 address', ['tcp', `::ffff:${v4}`, '443'], 'sidecar'),
  attempt('TCP to the metadata service', ['tcp', '169.254.169.254', '80'], 'sidecar'),
  attempt('TCP to the API server of the cluster', ['tcp', '10.96.0.1', '443'], 'sidecar'),
  attempt('TCP to the gateway of the pod', ['tcp', '10.77.0.1', '22'], 'sidecar'),
  attempt("TCP to the pod's own address", ['tcp', '10.77.0.2', '8080'], 'sidecar', unaided),
  attempt('TCP to a link-local IPv6 address', ['tcp', 'fe80::1', '80'], 'silence'),
  attempt('TCP to 0.0.0.0', ['tcp', '0.0.0.0', '80'], 'rejected', unaided),
  attempt('TCP as root without capabilities', ['tcp', v4, '443'], 'sidecar', { agent: { uid: 0 } }),
  attempt('TCP with data in the SYN (Fast Open)', ['fast_open', v4, '443'], 'sidecar'),
  attempt('Multipath TCP over IPv4', ['mptcp', v4, '443'], 'sidecar'),
  attempt('Multipath TCP over IPv6', ['mptcp', v6, '443'], 'sidecar'),
  attempt('TCP bound to the interface, IPv4', ['tcp', v4, '443', 'bind_device'], 'silence'),
  attempt('TCP bound to the interface, IPv6', ['tcp', v6, '443', 'bind_device'], 'silence'),
  attempt('TCP bound to the index of the interface', ['tcp', v4, '443', 'bind_index'], 'silence'),
  attempt(
    'TCP to loopback, bound to the interface',
    ['tcp', '127.0.0.1', '80', 'bind_device'],
    'silence',
  ),
  attempt('TCP with IP_UNICAST_IF', ['tcp', v4, '443', 'unicast_if'], 'sidecar'),
  attempt('TCP with IPV6_UNICAST_IF', ['tcp', v6, '443', 'unicast_if'], 'sidecar'),
  attempt('TCP with SO_DONTROUTE', ['tcp', '10.77.0.1', '443', 'dont_route'], 'sidecar'),
  attempt('TCP from a loopback address', ['tcp', v4, '443', 'loopback_source'], 'sidecar'),
  attempt(
    'TCP from a forged IPv4 address',
    ['tcp', v4, '443', 'forged_source'],
    'rejected',
    unaided,
  ),
  attempt(
    'TCP from a forged IPv4 address, with NET_RAW',
    ['tcp', v4, '443', 'transparent_source'],
    'silence',
    { agent: netRaw },
  ),
  attempt('TCP from a forged IPv6 address', ['tcp', v6, '443', 'forged_source'], 'silence'),
  attempt('a source route', ['set_option', '0', '4', '8307047f00000101'], 'refused', unaided),
  attempt(
    'TCP with a source route by way of loopback, with NET_RAW',
    ['tcp', v4, '443', 'source_route'],
    'silence',
    { agent: netRaw },
  ),
  attempt(
    'TCP with an IPv6 routing header by way of loopback',
    ['tcp', v6, '443', 'routing_header'],
    'silence',
    unaided,
  ),
  attempt(
    'TCP with an IPv6 routing header by way of the gateway',
    ['tcp', v6, '443', 'routing_header_outside'],
    'silence',
  ),
  attempt(
    'TCP as uid 1337 of a user namespace',
    ['tcp_in_user_namespace', v4, '443', '1337'],
    'sidecar',
  ),
];

const udp: readonly EscapeAttempt[] = [
  attempt('UDP to an IPv4 address', ['udp', v4, '9999'], 'rejected'),
  attempt('UDP to an IPv6 address', ['udp', v6, '9999'], 'rejected'),
  attempt('QUIC over IPv4', ['udp', v4, '443'], 'rejected'),
  attempt('QUIC over IPv6', ['udp', v6, '443'], 'rejected'),
  attempt('NTP', ['udp', v4, '123'], 'rejected'),
  attempt('UDP to the metadata service', ['udp', '169.254.169.254', '80'], 'rejected'),
  attempt("UDP to the pod's own address", ['udp', '10.77.0.2', '80'], 'rejected', unaided),
  attempt('UDP as root without capabilities', ['udp', v4, '443'], 'rejected', {
    agent: { uid: 0 },
  }),
  attempt('UDP bound to the interface', ['udp', v4, '443', 'bind_device'], 'rejected'),
  attempt(
    'UDP to IPv4 loopback, bound to the interface',
    ['udp', '127.0.0.1', '80', 'bind_device'],
    'rejected',
  ),
  attempt(
    'UDP to IPv6 loopback, bound to the interface',
    ['udp', '::1', '80', 'bind_device'],
    'rejected',
  ),
  attempt('UDP from a loopback address', ['udp', v4, '443', 'loopback_source'], 'rejected'),
  attempt(
    'UDP from a forged IPv4 address',
    ['udp', v4, '443', 'forged_source'],
    'rejected',
    unaided,
  ),
  attempt(
    'UDP from a forged IPv4 address, with NET_RAW',
    ['udp', v4, '443', 'transparent_source'],
    'rejected',
    { agent: netRaw },
  ),
  attempt('UDP from a forged IPv6 address', ['udp', v6, '443', 'forged_source'], 'rejected'),
  attempt(
    'UDP with a source route by way of loopback, with NET_RAW',
    ['udp', v4, '443', 'source_route'],
    'silence',
    { agent: netRaw },
  ),
  attempt(
    'UDP with an IPv6 routing header by way of loopback',
    ['udp', v6, '443', 'routing_header'],
    'silence',
    unaided,
  ),
  attempt(
    'UDP with an IPv6 routing header by way of the gateway',
    ['udp', v6, '443', 'routing_header_outside'],
    'rejected',
  ),
  attempt('UDP in fragments', ['udp_large', v4, '443'], 'rejected'),
  attempt('UDP on a socket that is closed at once', ['udp_closed', v4, '443'], 'rejected'),
  attempt('UDP-Lite', ['udp_lite', v4, '443'], 'rejected'),
  attempt(
    'UDP to an IPv4 multicast group',
    ['udp', '224.0.0.251', '5353', 'multicast_if'],
    'rejected',
  ),
  attempt(
    'UDP to an IPv6 multicast group',
    ['udp', 'ff02::fb', '5353', 'multicast_if'],
    'rejected',
  ),
  attempt(
    'UDP to the limited broadcast address',
    ['udp', '255.255.255.255', '67', 'broadcast'],
    'rejected',
  ),
  attempt(
    'UDP to the broadcast address of the subnet',
    ['udp', '10.77.0.255', '67', 'broadcast'],
    'rejected',
  ),
];

const dns: readonly EscapeAttempt[] = [
  attempt('DNS over UDP to any IPv4 server', ['dns', v4], 'sidecar'),
  attempt('DNS over UDP to any IPv6 server', ['dns', v6], 'sidecar'),
  attempt('DNS over TCP to any IPv4 server', ['dns_tcp', v4], 'sidecar'),
  attempt('DNS over TCP to any IPv6 server', ['dns_tcp', v6], 'sidecar'),
  attempt('DNS over TLS', ['tcp', v4, '853'], 'sidecar'),
  attempt('DNS to a resolver on loopback', ['dns', '127.0.0.53'], 'sidecar', unaided),
  attempt(
    "DNS to the hidden port of Docker's resolver",
    ['udp', '127.0.0.11', '45678'],
    'rejected',
    unaided,
  ),
  attempt('DNS to a multicast group', ['dns', '224.0.0.251', 'multicast_if'], 'sidecar'),
  attempt('DNS to the broadcast address', ['dns', '255.255.255.255', 'broadcast'], 'sidecar'),
  attempt('DNS bound to the interface, IPv4', ['dns', v4, 'bind_device'], 'rejected'),
  attempt('DNS bound to the interface, IPv6', ['dns', v6, 'bind_device'], 'rejected'),
  attempt('DNS with the interface in IP_PKTINFO', ['dns_pktinfo', v4], 'sidecar'),
  attempt(
    "DNS from a forged IPv6 address, to have the sidecar's answer sent there",
    ['dns', v6, 'forged_source'],
    'silence',
  ),
  attempt(
    'DNS from a forged IPv4 address, the same, with NET_RAW',
    ['raw_dns', '198.51.100.99', v4],
    'silence',
    { agent: netRaw },
  ),
];

const icmpAndRaw: readonly EscapeAttempt[] = [
  attempt('ICMP echo over IPv4', ['ping', v4], 'rejected'),
  attempt('ICMP echo over IPv6', ['ping', v6], 'silence'),
  attempt('a raw IP socket', ['open_socket', '2', '3', '1'], 'refused', unaided),
  attempt('a packet socket', ['open_socket', '17', '3', '0'], 'refused', unaided),
  attempt('a packet socket in a user namespace', ['raw_in_user_namespace'], 'refused', unaided),
  attempt('ICMP through a raw socket, with NET_RAW', ['raw', v4, '1'], 'rejected', {
    agent: netRaw,
  }),
  attempt('SCTP through a raw socket, with NET_RAW', ['raw', v4, '132'], 'rejected', {
    agent: netRaw,
  }),
  attempt('GRE through a raw socket, with NET_RAW', ['raw', v4, '47'], 'rejected', {
    agent: netRaw,
  }),
  attempt('a raw IPv6 packet, with NET_RAW', ['raw', v6, '59'], 'rejected', { agent: netRaw }),
  attempt('neighbour discovery with data, with NET_RAW', ['raw_discovery', 'fd77::1'], 'rejected', {
    agent: netRaw,
  }),
  attempt(
    'a raw packet from a forged address, with NET_RAW',
    ['raw_forged', '198.51.100.99', v4],
    'rejected',
    { agent: netRaw },
  ),
  attempt(
    'a raw packet to loopback, bound to the interface, with NET_RAW',
    ['raw', '127.0.0.1', '1', 'bind_device'],
    'rejected',
    { agent: netRaw },
  ),
  attempt('a raw fragment without a header, with NET_RAW', ['raw_fragment', v4], 'rejected', {
    agent: netRaw,
  }),
];

const privileges: readonly EscapeAttempt[] = [
  attempt(
    'to transmit from any address (IP_TRANSPARENT)',
    ['set_option', '0', '19'],
    'refused',
    unaided,
  ),
  attempt('to set the mark of packets (SO_MARK)', ['set_option', '1', '36'], 'refused', unaided),
  attempt(
    'to remove the rules with nft',
    ['run_program', '/usr/sbin/nft', 'delete', 'table', 'inet', 'sallyport'],
    'refused',
    unaided,
  ),
  attempt(
    'to remove the rules with nft, as root without capabilities',
    ['run_program', '/usr/sbin/nft', 'delete', 'table', 'inet', 'sallyport'],
    'refused',
    { ...unaided, agent: { uid: 0 } },
  ),
  attempt(
    'to remove the rules with nft in a user namespace',
    ['nft_in_user_namespace', '/usr/sbin/nft', 'delete', 'table', 'inet', 'sallyport'],
    'refused',
    unaided,
  ),
  attempt(
    'to remove the rules with iptables',
    ['run_program', '/usr/sbin/iptables', '-F'],
    'refused',
    unaided,
  ),
  attempt("to become the sidecar's user", ['become_sidecar'], 'refused', unaided),
  attempt(
    "to become the sidecar's user, as root without capabilities",
    ['become_sidecar'],
    'refused',
    { ...unaided, agent: { uid: 0 } },
  ),
  attempt(
    "to enter the node's network namespace",
    ['enter_namespace', '/run/netns/{outside}'],
    'refused',
    unaided,
  ),
  attempt(
    'to use a network namespace of its own',
    ['new_network_namespace', v4, '443'],
    'rejected',
    unaided,
  ),
  attempt('to kill the sidecar', ['kill', '{sidecar}'], 'refused', unaided),
  attempt("to take over the sidecar's port", ['listen', '15001'], 'refused', unaided),
];

// These attempts come last, because the kernel repeats its reports for a while.
const groups: readonly EscapeAttempt[] = [
  attempt(
    'the report of an IPv4 multicast group that is joined',
    ['join_group', '239.1.2.3'],
    'silence',
  ),
  attempt(
    'the report of an IPv6 multicast group that is joined',
    ['join_group', 'ff15::1234'],
    'silence',
  ),
];

/** Attempts of an agent at any time while the rules are active. */
export const escapeAttempts: readonly EscapeAttempt[] = [
  ...tcp,
  ...udp,
  ...dns,
  ...icmpAndRaw,
  ...privileges,
  ...groups,
];

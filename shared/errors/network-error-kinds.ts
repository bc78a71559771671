interface NetworkErrorKind {
  readonly text: string;
  /** What the operator can do. */
  readonly nextStep: string;
}

const apply = 'Run `sallyport network apply` with the same options.';

/** The reason codes of `sallyport network`. Only the command line reports them, so none has an HTTP status. */
export const networkErrorKinds = {
  'network.option_invalid': {
    text: 'An option of the command has a value that cannot work.',
    nextStep: 'Correct the option that the message names.',
  },
  'network.tool_missing': {
    text: 'Neither nft nor iptables is installed, or the program of the chosen backend is missing.',
    nextStep: 'Install the package nftables, or iptables with ip6tables.',
  },
  'network.not_permitted': {
    text: 'The process may not read or change packet filter rules.',
    nextStep:
      'Run the command as root with the capability NET_ADMIN. In Kubernetes, only the init container that applies the rules has it.',
  },
  'network.kernel_unsupported': {
    text: 'The kernel refused the rules, because it lacks a feature or a module.',
    nextStep:
      'Load the modules nf_tables, nft_redir, nft_ct, nft_reject_inet and nf_conntrack on the node, or use `--backend iptables`.',
  },
  'network.tool_failed': {
    text: 'nft or iptables failed for another reason.',
    nextStep: 'Read the output of the program in the message.',
  },
  'network.rules_missing': {
    text: 'No rules of Sallyport are active in this network namespace.',
    nextStep: apply,
  },
  'network.redirect_missing': {
    text: 'Connections and DNS queries are not redirected to the sidecar.',
    nextStep: apply,
  },
  'network.filter_missing': {
    text: 'Packets that do not go through the sidecar are not rejected.',
    nextStep: apply,
  },
  'network.uid_differs': {
    text: 'The rules exempt another user id than the expected one.',
    nextStep:
      'Run the sidecar with the user id of `--uid`, and apply the rules with the same value.',
  },
  'network.port_differs': {
    text: 'The rules redirect to other ports than the expected ones.',
    nextStep: 'Use the same `--port` and `--dns-port` for the rules and for the sidecar.',
  },
  'network.rules_shadowed': {
    text: 'Rules of another program are evaluated before those of Sallyport.',
    nextStep:
      'Find the program that changes the rules of this network namespace, then apply again.',
  },
  'network.rules_changed': {
    text: 'The rules differ from those that this version applies.',
    nextStep: apply,
  },
  'network.same_uid': {
    text: "The validator has the sidecar's user id, whose packets are not redirected.",
    nextStep: 'Run the validator as any other user.',
  },
  'network.no_route': {
    text: 'Neither IPv4 nor IPv6 has a route, so the redirect cannot be tested.',
    nextStep: 'Give the network namespace an address and a default route.',
  },
  'network.sidecar_not_listening': {
    text: "No process with the sidecar's user id listens on the ports of the redirect.",
    nextStep: 'Start the sidecar first, with the same ports and as the user of `--uid`.',
  },
  'network.not_redirected': {
    text: 'A connection to a test address did not reach the sidecar of this network namespace.',
    nextStep:
      'Run `sallyport network check` with NET_ADMIN to see which rules are missing or differ.',
  },
  'network.sidecar_unhealthy': {
    text: 'The sidecar accepted the redirected connection and did not report that it is alive.',
    nextStep: "Read the sidecar's log.",
  },
  'network.dns_not_redirected': {
    text: "A DNS query to a test address did not get the sidecar's answer.",
    nextStep:
      'Run `sallyport network check` with NET_ADMIN to see which rules are missing or differ.',
  },
} as const satisfies Record<string, NetworkErrorKind>;

export type NetworkErrorCode = keyof typeof networkErrorKinds;

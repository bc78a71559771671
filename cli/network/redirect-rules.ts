import { NetworkError } from './network-error.ts';

/** The settings that determine the rules. */
export interface RedirectSettings {
  /** User id of the sidecar: the only user whose packets may leave the network namespace. */
  readonly uid: number;
  /** The sidecar's port for redirected TCP connections. */
  readonly port: number;
  /** The sidecar's port for redirected DNS queries, UDP and TCP. */
  readonly dnsPort: number;
}

/**
 * The rules of each chain, by the chain's name, in the form in which the backend's program lists
 * them. A listing can therefore be compared line by line.
 */
export type Chains = ReadonlyMap<string, readonly string[]>;

/** Conntrack mark of connections that the sidecar opened. */
export const sidecarMark = '0x53500001';

/** Conntrack mark of TCP connections that another host opened to this network namespace. */
export const inboundMark = '0x53500002';

/** Docker's DNS server in a container's network namespace. It forwards queries to other networks. */
export const dockerDns = '127.0.0.11';

const uidMax = 4_294_967_294;

/** Parses and checks the option values. */
export function readSettings(options: {
  readonly uid: string;
  readonly port: string;
  readonly dnsPort: string;
}): RedirectSettings {
  const uid = wholeNumber('--uid', options.uid, uidMax);
  const port = wholeNumber('--port', options.port, 65_535);
  const dnsPort = wholeNumber('--dns-port', options.dnsPort, 65_535);
  if (port === dnsPort || port === 53 || dnsPort === 53) {
    throw new NetworkError(
      'network.option_invalid',
      `--port (${port}) and --dns-port (${dnsPort}) must differ, and neither can be 53.`,
    );
  }
  return { uid, port, dnsPort };
}

function wholeNumber(option: string, text: string, max: number): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= 1 && number <= max) return number;
  const isRoot = option === '--uid' && number === 0;
  const reason = isRoot ? ' Root is the user of many processes and cannot be the sidecar.' : '';
  throw new NetworkError(
    'network.option_invalid',
    `${option} is ${JSON.stringify(text)}, and must be a whole number from 1 to ${max}.${reason}`,
  );
}

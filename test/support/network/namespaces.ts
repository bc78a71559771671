import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { findProgram, installPackages } from '../programs/programs.ts';

const run = promisify(execFile);

export interface Namespaces {
  /** A pod: `eth0` with 10.77.0.2 and fd77::2, and the default routes to `outside`. */
  readonly pod: string;
  /** Every other host: 10.77.0.1, fd77::1, and all addresses that are not the pod's. */
  readonly outside: string;
  close(): Promise<void>;
}

export const podAddress = '10.77.0.2';
export const outsideAddress = '10.77.0.1';

/** The system's Python, because other users may not have access to a Python of root. */
export const python = '/usr/bin/python3';

/** Settings of a node that helps an agent: it forwards, and checks no source address and no route. */
const openSettings: readonly (readonly [string, string])[] = [
  ['ipv4/ping_group_range', '0 2147483647'],
  ['ipv4/ip_forward', '1'],
  ['ipv6/conf/all/forwarding', '1'],
  ...['all', 'lo', 'eth0'].flatMap((name) => [
    [`ipv4/conf/${name}/rp_filter`, '0'] as const,
    [`ipv4/conf/${name}/accept_source_route`, '1'] as const,
    [`ipv4/conf/${name}/route_localnet`, '1'] as const,
    [`ipv4/conf/${name}/accept_local`, '1'] as const,
    [`ipv6/conf/${name}/seg6_enabled`, '1'] as const,
  ]),
];

let count = 0;

/**
 * Installs the programs that tests of network namespaces need. Only root can create network
 * namespaces.
 */
async function installPrograms(): Promise<void> {
  if (process.getuid?.() !== 0) {
    throw new Error(
      'These tests make network namespaces: run them as root with CAP_SYS_ADMIN and CAP_NET_ADMIN.',
    );
  }
  await findProgram(['ip'], 'iproute2');
  await findProgram(['nft'], 'nftables');
  await findProgram(['iptables'], 'iptables');
  await findProgram(['tcpdump']);
  await findProgram(['setpriv'], 'util-linux');
  if (!existsSync(python)) await installPackages(['python3']);
}

/** Creates two network namespaces that are connected by a virtual Ethernet cable. */
export async function openNamespaces(): Promise<Namespaces> {
  await installPrograms();
  count += 1;
  const [pod, outside] = ['pod', 'out'].map((name) => `sp-${process.pid}-${count}-${name}`) as [
    string,
    string,
  ];
  const ip = (namespace: string, args: string) => run('ip', ['-n', namespace, ...args.split(' ')]);
  for (const namespace of [pod, outside]) await run('ip', ['netns', 'add', namespace]);
  await run(
    'ip',
    `link add eth0 netns ${pod} type veth peer name eth0 netns ${outside}`.split(' '),
  );
  for (const [namespace, host] of [
    [pod, 2],
    [outside, 1],
  ] as const) {
    await setSysctl(namespace, 'ipv6/conf/eth0/accept_ra', '0');
    await ip(namespace, 'link set lo up');
    await ip(namespace, `addr add 10.77.0.${host}/24 broadcast 10.77.0.255 dev eth0`);
    await ip(namespace, `addr add fd77::${host}/64 dev eth0 nodad`);
    await ip(namespace, 'link set eth0 up');
  }
  await ip(outside, 'addr add fe80::1/64 dev eth0 nodad');
  await ip(pod, 'route add default via 10.77.0.1');
  await ip(pod, '-6 route add default via fd77::1');
  // `outside` accepts packets to any address.
  await ip(outside, 'route add local 0.0.0.0/0 dev lo table main');
  await ip(outside, '-6 route add local ::/0 dev lo table main');
  for (const [name, value] of openSettings) await setSysctl(pod, name, value);
  return {
    pod,
    outside,
    async close() {
      for (const namespace of [pod, outside]) await run('ip', ['netns', 'del', namespace]);
    },
  };
}

async function setSysctl(namespace: string, name: string, value: string): Promise<void> {
  await run('nsenter', [...enter(namespace), 'sh', '-c', `echo ${value} > /proc/sys/net/${name}`]);
}

/** Returns the arguments of `nsenter` for a network namespace. */
export function enter(namespace: string): readonly string[] {
  return [`--net=/run/netns/${namespace}`, '--'];
}

/** Starts a program in a network namespace; its standard streams are pipes. */
export function spawnIn(namespace: string, command: readonly string[]) {
  return spawn('nsenter', [...enter(namespace), ...command], { stdio: ['pipe', 'pipe', 'pipe'] });
}

export interface Finished {
  readonly code: number;
  readonly output: string;
}

/** Runs a program in a network namespace to its end; returns exit code and both outputs. */
export async function runIn(namespace: string, command: readonly string[]): Promise<Finished> {
  try {
    const { stdout, stderr } = await run('nsenter', [...enter(namespace), ...command]);
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const {
      code,
      stdout = '',
      stderr = '',
    } = error as { code?: unknown; stdout?: string; stderr?: string };
    if (typeof code !== 'number') throw error;
    return { code, output: stdout + stderr };
  }
}

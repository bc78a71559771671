import { once } from 'node:events';
import { until } from '../programs/processes.ts';
import { outsideAddress, python, spawnIn } from './namespaces.ts';

/** An Ethernet frame that left the pod. */
interface Frame {
  readonly text: string;
  readonly bytes: Buffer;
}

export interface Recorder {
  /**
   * Returns the frames that left the pod since the last call, except ARP, neighbour discovery and
   * beacons.
   */
  arrived(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Sends each line of its input as a UDP packet, as the user of the sidecar. */
const beaconProgram = `
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for line in sys.stdin:
    sender.sendto(line.strip().encode(), ('${outsideAddress}', 9))
`;

/**
 * Records every frame that leaves the pod. A beacon marks the end of a recording: a frame that left
 * before the beacon is recorded before it.
 */
export async function startRecorder({
  pod,
  outside,
}: {
  pod: string;
  outside: string;
}): Promise<Recorder> {
  const command = 'tcpdump -i eth0 -Q in -n -U --immediate-mode -B 16384 -w -';
  const capture = spawnIn(outside, command.split(' '));
  const beacon = spawnIn(pod, [
    'setpriv',
    '--reuid=1337',
    '--clear-groups',
    python,
    '-uc',
    beaconProgram,
  ]);
  const frames: Frame[] = [];
  let pending = Buffer.alloc(0);
  let isPastHeader = false;
  capture.stdout.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    if (!isPastHeader && pending.length >= 24) {
      pending = pending.subarray(24);
      isPastHeader = true;
    }
    while (isPastHeader && pending.length >= 16 && pending.length >= 16 + pending.readUInt32LE(8)) {
      const end = 16 + pending.readUInt32LE(8);
      const bytes = pending.subarray(16, end);
      frames.push({ bytes, text: describeFrame(bytes) });
      pending = pending.subarray(end);
    }
  });
  let beacons = 0;
  const sendBeacon = () => {
    beacons += 1;
    const text = `beacon ${beacons}.`;
    beacon.stdin.write(`${text}\n`);
    return () => frames.some(({ bytes }) => bytes.includes(text));
  };
  // The first beacons are sent before tcpdump is ready.
  await until('the recorder records', async () => {
    const isSeen = sendBeacon();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return isSeen();
  });
  return {
    async arrived() {
      await until('the recorder sees the beacon', sendBeacon());
      return frames.splice(0).flatMap(({ text, bytes }) => (isExpected(text, bytes) ? [] : [text]));
    },
    async close() {
      beacon.stdin.end();
      await once(beacon, 'exit');
      const exited = once(capture, 'exit');
      capture.kill('SIGTERM');
      await exited;
    },
  };
}

/** The group that an attempt joins. The kernel joins other groups itself when an interface starts. */
const joinedGroup = Buffer.from('ff150000000000000000000000001234', 'hex');

function isExpected(text: string, bytes: Buffer): boolean {
  if (bytes.includes('escape')) return false;
  if (text.startsWith('icmpv6 143 ')) return !bytes.includes(joinedGroup);
  return /^(arp|icmpv6 (133|135|136) )/.test(text) || bytes.includes('beacon ');
}

const protocolNames: Readonly<Record<number, string>> = {
  1: 'icmp',
  2: 'igmp',
  6: 'tcp',
  17: 'udp',
  58: 'icmpv6',
};

/** Returns a text such as `udp 10.77.0.2 > 8.8.8.8:53` or `icmpv6 135 fe80::1 > ff02::1`. */
function describeFrame(bytes: Buffer): string {
  const type = bytes.readUInt16BE(12);
  if (type === 0x0806) return 'arp';
  if (type === 0x0800) {
    const header = (bytes.readUInt8(14) & 15) * 4;
    const address = (at: number) => bytes.subarray(at, at + 4).join('.');
    return describePacket(
      bytes.readUInt8(23),
      address(26),
      address(30),
      bytes.subarray(14 + header),
    );
  }
  if (type === 0x86dd) {
    const address = (at: number) =>
      (bytes.toString('hex', at, at + 16).match(/.{4}/g) ?? []).join(':');
    const { protocol, payload } = ipv6Payload(bytes);
    return describePacket(protocol, address(22), address(38), payload);
  }
  return `ethertype ${type.toString(16)}`;
}

/** Skips a hop-by-hop header, which multicast listener reports have. */
function ipv6Payload(bytes: Buffer): { readonly protocol: number; readonly payload: Buffer } {
  const protocol = bytes.readUInt8(20);
  if (protocol !== 0) return { protocol, payload: bytes.subarray(54) };
  const length = (bytes.readUInt8(55) + 1) * 8;
  return { protocol: bytes.readUInt8(54), payload: bytes.subarray(54 + length) };
}

function describePacket(protocol: number, from: string, to: string, payload: Buffer): string {
  const name = protocolNames[protocol] ?? `protocol ${protocol}`;
  const hasPorts = (protocol === 6 || protocol === 17) && payload.length >= 4;
  const port = hasPorts ? ` port ${payload.readUInt16BE(2)}` : '';
  const kind = protocol === 58 || protocol === 1 ? ` ${payload.readUInt8(0)}` : '';
  return `${name}${kind} ${from} > ${to}${port}`;
}

import {
  type Answer,
  AUTHORITATIVE_ANSWER,
  decode,
  encode,
  type OptAnswer,
  type Packet,
  type Question,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  TRUNCATED_RESPONSE,
} from 'dns-packet';
import { normaliseHost } from '../../shared/base/host.ts';
import type { SyntheticNames } from './synthetic-names.ts';

/** Short, because a restarted sidecar assigns other addresses. */
const ttlSeconds = 5;
/** The largest response over UDP that no network has to fragment (DNS flag day 2020). */
const udpBytes = 1232;
const headerBytes = 12;
const plainUdpBytes = 512;

// RFC 1035 section 4.1.1.
const responseFlag = 0x8000;
const opcodeMask = 0x7800;
const rcodes = { NOERROR: 0, FORMERR: 1, NXDOMAIN: 3, NOTIMP: 4 } as const;
type Rcode = keyof typeof rcodes;

interface QueryDeps {
  readonly names: SyntheticNames;
  readonly transport: 'udp' | 'tcp';
}

export interface QueryResponse {
  readonly bytes: Buffer;
  readonly rcode: Rcode;
}

/**
 * Answers a DNS query without asking any other server. A and AAAA queries get synthetic addresses,
 * a PTR query of a synthetic address gets its name, and other types get no records. Returns
 * undefined for a message that is not a query. Such a message gets no response, so that two servers
 * cannot answer each other forever.
 */
export function answerQuery(message: Buffer, deps: QueryDeps): QueryResponse | undefined {
  if (message.length < headerBytes) return undefined;
  const flags = message.readUInt16BE(2);
  if ((flags & responseFlag) !== 0) return undefined;
  if ((flags & opcodeMask) !== 0) return failure(message, 'NOTIMP');
  let query: Packet;
  try {
    query = decode(message);
  } catch {
    return failure(message, 'FORMERR');
  }
  const [question, ...more] = query.questions ?? [];
  if (question === undefined || more.length > 0) return failure(message, 'FORMERR');
  return answered(query, question, deps);
}

function answered(query: Packet, question: Question, deps: QueryDeps): QueryResponse {
  const { rcode, answers } = recordsFor(question, deps.names);
  const edns = query.additionals?.find((record) => record.type === 'OPT');
  const flags =
    AUTHORITATIVE_ANSWER |
    RECURSION_AVAILABLE |
    ((query.flags ?? 0) & RECURSION_DESIRED) |
    rcodes[rcode];
  const response: Packet = {
    type: 'response',
    id: query.id,
    flags,
    questions: [question],
    answers,
    additionals: edns === undefined ? [] : [emptyOpt()],
  };
  const bytes = encode(response);
  const asked = edns?.type === 'OPT' ? edns.udpPayloadSize : plainUdpBytes;
  const limit = Math.min(Math.max(asked, plainUdpBytes), udpBytes);
  if (deps.transport === 'tcp' || bytes.length <= limit) return { bytes, rcode };
  const truncated = { ...response, flags: flags | TRUNCATED_RESPONSE, answers: [] };
  return { bytes: encode(truncated), rcode };
}

function emptyOpt(): OptAnswer {
  return {
    type: 'OPT',
    name: '.',
    udpPayloadSize: udpBytes,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: [],
  };
}

interface Records {
  readonly rcode: Rcode;
  readonly answers: Answer[];
}

const noRecords: Records = { rcode: 'NOERROR', answers: [] };
const noSuchName: Records = { rcode: 'NXDOMAIN', answers: [] };

function recordsFor({ name, type, class: kind }: Question, names: SyntheticNames): Records {
  if (kind !== undefined && kind !== 'IN') return noRecords;
  const lower = name.toLowerCase();
  if (/\.(?:in-addr|ip6)\.arpa$/.test(lower)) return reverse(name, names);
  const host = normaliseHost(lower);
  // Firefox turns DNS over HTTPS off when this name does not exist.
  if (host === undefined || !isName(lower) || host === 'use-application-dns.net') return noSuchName;
  if (type !== 'A' && type !== 'AAAA') return noRecords;
  const addresses = isLocalhost(host)
    ? { ipv4: '127.0.0.1', ipv6: '::1' }
    : names.addressesOf(host);
  const data = type === 'A' ? addresses.ipv4 : addresses.ipv6;
  return { rcode: 'NOERROR', answers: [{ type, class: 'IN', name, ttl: ttlSeconds, data }] };
}

/** False for an address in place of a name, and for text that only URL parsers take for a host. */
function isName(text: string): boolean {
  return /^[a-z0-9_.-]+$/.test(text) && !/(?:^|\.)[0-9]+$/.test(text);
}

/** RFC 6761 section 6.3. */
function isLocalhost(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost');
}

function reverse(name: string, names: SyntheticNames): Records {
  const address = reversedAddress(name.toLowerCase());
  const host = address === undefined ? undefined : names.nameOf(address);
  if (host === undefined) return noSuchName;
  return {
    rcode: 'NOERROR',
    answers: [{ type: 'PTR', class: 'IN', name, ttl: ttlSeconds, data: host }],
  };
}

/** The address in a name such as `1.0.18.198.in-addr.arpa`. */
function reversedAddress(name: string): string | undefined {
  const labels = name.split('.').slice(0, -2).reverse();
  if (name.endsWith('.in-addr.arpa')) return labels.length === 4 ? labels.join('.') : undefined;
  if (labels.length !== 32 || labels.some((label) => !/^[0-9a-f]$/.test(label))) return undefined;
  return labels.join('').match(/.{4}/g)?.join(':');
}

/** Builds a response without a question, because the question could not be read. */
function failure(message: Buffer, rcode: Rcode): QueryResponse {
  const bytes = Buffer.alloc(headerBytes);
  message.copy(bytes, 0, 0, 2);
  const asked = message.readUInt16BE(2) & (opcodeMask | RECURSION_DESIRED);
  bytes.writeUInt16BE(responseFlag | asked | RECURSION_AVAILABLE | rcodes[rcode], 2);
  return { bytes, rcode };
}

import { editDistance } from '../base/nearest-name.ts';

interface Named {
  readonly name: string;
  readonly port: string;
}

/** Parses a host as written in bindings and credentials. All loopback names become `loopback`. */
export function namedHost(host: string): Named {
  const [, name = host, port = '443'] = /^(.*?)(?::(\d+))?$/.exec(host) ?? [];
  return { name: isLoopback(name) ? 'loopback' : name, port };
}

function isLoopback(name: string): boolean {
  return /^(?:localhost|(?:.+\.)?localhost|127(?:\.\d+){3}|\[::1\])$/.test(name);
}

const editsMax = 2;

/**
 * Edit distance of two names; infinite above two edits, because more edits are unlikely to be a
 * typing error.
 */
export function nameDistance(one: string, other: string): number {
  if (one === other) return 0;
  if (Math.abs(one.length - other.length) > editsMax) return Number.POSITIVE_INFINITY;
  const edits = editDistance(one, other);
  return edits <= editsMax ? edits : Number.POSITIVE_INFINITY;
}

const portsMax = 65_536;

/**
 * Ranks a host by how likely it is that the caller meant this host; the likeliest host has the
 * lowest rank. First comes the same name on the nearest port, then a similar name on the same port,
 * then any name on the same port, unless that port is 443. The rank of all other hosts is infinite.
 */
export function hostDistance(one: Named, other: Named): number {
  if (one.name === other.name) return Math.abs(Number(one.port) - Number(other.port));
  if (one.port !== other.port) return Number.POSITIVE_INFINITY;
  const edits = nameDistance(one.name, other.name);
  if (edits <= editsMax) return portsMax + edits;
  return one.port === '443' ? edits : 2 * portsMax;
}

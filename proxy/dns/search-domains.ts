import { normaliseHost } from '../../shared/base/host.ts';

const resolverFile = '/etc/resolv.conf';

/**
 * The search domains of this machine's resolver, with which resolvers complete the names that the
 * agent writes. Empty if the file cannot be read.
 */
export function readSearchDomains(readFile: (path: string) => string): readonly string[] {
  let text: string;
  try {
    text = readFile(resolverFile);
  } catch {
    return [];
  }
  // The last `search` or `domain` line counts (resolv.conf(5)).
  const lines = [...text.matchAll(/^[ \t]*(?:search|domain)[ \t]+(.+)$/gm)];
  const domains = (lines.at(-1)?.[1] ?? '').trim().split(/[ \t]+/);
  return domains
    .map((domain) => normaliseHost(domain.toLowerCase()))
    .filter((domain) => domain !== undefined);
}

/** The shorter names that a resolver may have completed to `name`. */
export function withoutSearchDomains(name: string, domains: readonly string[]): string[] {
  return domains
    .filter((domain) => name.endsWith(`.${domain}`))
    .map((domain) => name.slice(0, -(domain.length + 1)));
}

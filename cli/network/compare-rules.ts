import type { Backend } from './backend.ts';
import { isShadowed } from './iptables-rules.ts';
import type { Problem } from './network-error.ts';
import type { Chains, RedirectSettings } from './redirect-rules.ts';

/** The differences between the active and the expected rules; empty if they are equal. */
export function compareRules(
  backend: Pick<Backend, 'expected' | 'isRedirect' | 'isFilter'>,
  found: Chains,
  wanted: RedirectSettings,
): readonly Problem[] {
  if (found.size === 0) return [{ code: 'network.rules_missing' }];
  const expected = backend.expected(wanted);
  const missing = [...expected.keys()].filter((name) => isMissing(name, found, expected));
  const redirects = missing.filter((name) => backend.isRedirect(name));
  const filters = missing.filter((name) => backend.isFilter(name));
  const actual = settingsIn(backend, found, wanted);
  const withActual = backend.expected(actual);
  const compared = new Set([...expected.keys(), ...found.keys()]);
  for (const name of [...redirects, ...filters]) compared.delete(name);
  return [
    ...group('network.redirect_missing', redirects),
    ...group('network.filter_missing', filters),
    ...differingSettings(actual, wanted),
    ...[...compared].flatMap((name) => compareChain(name, found.get(name), withActual.get(name))),
  ];
}

/** True if a chain has none of its expected rules; a chain's declaration is not a rule. */
function isMissing(name: string, found: Chains, expected: Chains): boolean {
  const rules = (expected.get(name) ?? []).filter((line) => !line.startsWith('type '));
  const actual = found.get(name);
  return (
    actual === undefined || (rules.length > 0 && actual.every((line) => line.startsWith('type ')))
  );
}

function group(
  code: 'network.redirect_missing' | 'network.filter_missing',
  names: readonly string[],
): readonly Problem[] {
  if (names.length === 0) return [];
  return [{ code, detail: `These chains have no rules: ${names.join(', ')}.` }];
}

const settingForms = {
  uid: /^(?:meta skuid (\d+) return|-m owner --uid-owner (\d+) -j RETURN)$/,
  port: /^(?:meta l4proto 6 redirect to :(\d+)|-p tcp -j REDIRECT --to-ports (\d+))$/,
  dnsPort:
    /^(?:udp dport 53 redirect to :(\d+)|-p udp -m udp --dport 53 -j REDIRECT --to-ports (\d+))$/,
} as const;

/** The settings that the rules were made with. */
function settingsIn(
  backend: Pick<Backend, 'isRedirect'>,
  found: Chains,
  wanted: RedirectSettings,
): RedirectSettings {
  const lines = [...found].flatMap(([name, rules]) => (backend.isRedirect(name) ? rules : []));
  const read = (setting: keyof typeof settingForms) => {
    const matches = lines.flatMap((line) => settingForms[setting].exec(line)?.slice(1) ?? []);
    const value = matches.find((text) => text !== undefined);
    return value === undefined ? wanted[setting] : Number(value);
  };
  return { uid: read('uid'), port: read('port'), dnsPort: read('dnsPort') };
}

function differingSettings(actual: RedirectSettings, wanted: RedirectSettings): readonly Problem[] {
  const uid: Problem = {
    code: 'network.uid_differs',
    detail: `The rules exempt user id ${actual.uid}, expected ${wanted.uid}.`,
  };
  const port: Problem = {
    code: 'network.port_differs',
    detail: `The rules redirect to ports ${actual.port} (TCP) and ${actual.dnsPort} (DNS), expected ${wanted.port} and ${wanted.dnsPort}.`,
  };
  const samePorts = actual.port === wanted.port && actual.dnsPort === wanted.dnsPort;
  return [...(actual.uid === wanted.uid ? [] : [uid]), ...(samePorts ? [] : [port])];
}

function compareChain(
  name: string,
  found: readonly string[] | undefined,
  expected: readonly string[] | undefined,
): readonly Problem[] {
  const code = 'network.rules_changed';
  if (found === undefined) return [{ code, detail: `Chain ${name} is missing.` }];
  if (expected === undefined) return [{ code, detail: `Chain ${name} is not one of Sallyport's.` }];
  if (found.some(isShadowed)) {
    const detail = `The jump in chain ${name} is not the first rule.`;
    return [{ code: 'network.rules_shadowed', detail }];
  }
  const at = Array.from({ length: Math.max(found.length, expected.length) }).findIndex(
    (_, index) => found[index] !== expected[index],
  );
  if (at === -1) return [];
  const quoted = (line: string | undefined) => (line === undefined ? 'nothing' : `\`${line}\``);
  const detail = `Chain ${name}, line ${at + 1}: found ${quoted(found[at])}, expected ${quoted(expected[at])}.`;
  return [{ code, detail }];
}

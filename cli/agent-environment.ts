import { fileURLToPath } from 'node:url';
import { secretSettings } from '../shared/base/settings.ts';

/** Where a command's calls go, and whom it trusts. */
export interface WayOut {
  /** The sidecar's forward proxy, with the proxy token as its password where there is one. */
  readonly proxyUrl: string;
  /** PEM file for variables that add to what a client trusts: the sidecar's authority. */
  readonly addedCaPath: string;
  /** PEM file for variables that replace it: the machine's authorities, and the sidecar's. */
  readonly wholeCaPath: string;
}

/** What an environment must change for every client started in it to go through the sidecar. */
export interface EnvironmentChange {
  readonly set: readonly (readonly [name: string, value: string])[];
  readonly unset: readonly string[];
}

// The schemes of WebSocket too: aiohttp connects straight where those have no proxy of their own.
// ALL_PROXY catches what has no variable here, and takes the place of a SOCKS proxy of the shell.
const proxied = ['http_proxy', 'https_proxy', 'ws_proxy', 'wss_proxy', 'all_proxy'];
const replacing = [
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
  // npm ignores NODE_EXTRA_CA_CERTS where its configuration names a file of its own.
  'npm_config_cafile',
  'AWS_CA_BUNDLE',
  'CARGO_HTTP_CAINFO',
];
const adding = ['NODE_EXTRA_CA_CERTS', 'DENO_CERT'];

/**
 * The variables that send any client through the sidecar (this list is the only one), and those of
 * the surrounding shell that would lead around it or give away what is Sallyport's: every other
 * `*_PROXY`, every `SALLYPORT_*` that does not say where the sidecar is, and the addresses of its
 * database and bus.
 */
export function agentEnvironment(
  { proxyUrl, addedCaPath, wholeCaPath }: WayOut,
  surrounding: Readonly<Record<string, string | undefined>> = {},
): EnvironmentChange {
  const set = [
    ...bothCases(proxied, proxyUrl),
    // Empty, not absent: nothing is reached past the sidecar, whatever a profile says.
    ...bothCases(['no_proxy'], ''),
    ['NODE_USE_ENV_PROXY', '1'] as const,
    // Node before 24 ignores the variables above, and from 24 on the agents of a program's own do.
    ['NODE_OPTIONS', withPreload(surrounding.NODE_OPTIONS)] as const,
    ...adding.map((name) => [name, addedCaPath] as const),
    ...replacing.map((name) => [name, wholeCaPath] as const),
  ];
  const kept = new Set(set.map(([name]) => name));
  const unset = Object.keys(surrounding).filter((name) => !kept.has(name) && isUnwanted(name));
  return { set, unset };
}

const preload = fileURLToPath(new URL('agent-preload.cjs', import.meta.url));

/** The options that Node has already, with the preload behind them; once, however often `run` is nested. */
function withPreload(options = ''): string {
  const ours = `--require "${preload.replace(/["\\]/g, '\\$&')}"`;
  return options.includes(ours) ? options : `${options} ${ours}`.trimStart();
}

function bothCases(names: readonly string[], value: string): [string, string][] {
  return [...names.map((name) => name.toUpperCase()), ...names].map((name) => [name, value]);
}

// No secrets: `sallyport mcp`, started by the command, finds the sidecar by them.
const whereabouts = ['SALLYPORT_PROXY_HOST', 'SALLYPORT_PROXY_PORT', 'SALLYPORT_PROXY_ADMIN_PORT'];

function isUnwanted(name: string): boolean {
  if (/_(?:no)?proxy$/i.test(name)) return true;
  return isOurs(name) && !whereabouts.includes(name);
}

/** Whether a variable tells Sallyport something, which is not for an agent or a tool to read. */
export function isOurs(name: string): boolean {
  return name.startsWith('SALLYPORT_') || secretSettings.includes(name.replace(/_FILE$/, ''));
}

/** A copy of the environment with the change made. */
export function changed(
  env: Readonly<Record<string, string | undefined>>,
  { set, unset }: EnvironmentChange,
): Record<string, string | undefined> {
  const without = Object.entries(env).filter(([name]) => !unset.includes(name));
  return { ...Object.fromEntries(without), ...Object.fromEntries(set) };
}

/** The change as lines for a POSIX shell. */
export function asShell({ set, unset }: EnvironmentChange): string {
  const lines = [
    ...unset.filter((name) => /^\w+$/.test(name)).map((name) => `unset ${name}`),
    ...set.map(([name, value]) => `export ${name}=${quoted(value)}`),
  ];
  return `${lines.join('\n')}\n`;
}

function quoted(value: string): string {
  return /^[\w:/.@%-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

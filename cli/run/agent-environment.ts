import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { addingVariables, replacingVariables } from '../../shared/agent/trust-variables.ts';
import { SettingsError, secretSettings } from '../../shared/base/settings.ts';
import { namesService } from '../isolation/hidden-paths.ts';

/** The proxy that a command uses, and the CA files that it trusts. */
export interface ProxyAccess {
  /** The sidecar's forward proxy, with the proxy token, if any, as the password. */
  readonly proxyUrl: string;
  /** PEM file for variables that add trusted CAs: the sidecar's CA. */
  readonly addedCaPath: string;
  /** PEM file for variables that replace trusted CAs: the CAs of the machine and the sidecar. */
  readonly wholeCaPath: string;
}

/** The variables to set and unset so that every client goes through the sidecar. */
export interface EnvironmentChange {
  readonly set: readonly (readonly [name: string, value: string])[];
  readonly unset: readonly string[];
}

// Includes the WebSocket schemes, because aiohttp connects directly for a scheme without a proxy
// variable. ALL_PROXY covers all remaining schemes, and replaces a SOCKS proxy of the shell.
const proxied = ['http_proxy', 'https_proxy', 'ws_proxy', 'wss_proxy', 'all_proxy'];

/**
 * Sets the variables that send any client through the sidecar. Unsets variables of the surrounding
 * shell that would bypass the sidecar or expose Sallyport's secrets: other `*_PROXY` variables,
 * `SALLYPORT_*` settings other than the sidecar's address, and the addresses of the database and
 * the bus.
 */
export function agentEnvironment(
  { proxyUrl, addedCaPath, wholeCaPath }: ProxyAccess,
  surrounding: Readonly<Record<string, string | undefined>> = {},
): EnvironmentChange {
  const set = [
    ...bothCases(proxied, proxyUrl),
    // Set to empty, so that a shell profile does not exempt hosts.
    ...bothCases(['no_proxy'], ''),
    ['NODE_USE_ENV_PROXY', '1'] as const,
    // Node before 24 ignores the variables above. In later versions, an HTTP agent that a program
    // creates itself ignores them.
    ['NODE_OPTIONS', withPreload(surrounding.NODE_OPTIONS)] as const,
    ...addingVariables.map((name) => [name, addedCaPath] as const),
    ...replacingVariables.map((name) => [name, wholeCaPath] as const),
  ];
  const kept = new Set(set.map(([name]) => name));
  const unset = Object.keys(surrounding).filter((name) => !kept.has(name) && isUnwanted(name));
  return { set, unset };
}

/**
 * The variables of an isolated command: it trusts the sidecar's CA and has no proxy, because its
 * connections are redirected. Also unsets variables that refer to services which isolation hides.
 */
export function isolatedEnvironment(
  { addedCaPath, wholeCaPath }: Omit<ProxyAccess, 'proxyUrl'>,
  surrounding: Readonly<Record<string, string | undefined>> = {},
): EnvironmentChange {
  const set = [
    ...addingVariables.map((name) => [name, addedCaPath] as const),
    ...replacingVariables.map((name) => [name, wholeCaPath] as const),
  ];
  const kept = new Set<string>(set.map(([name]) => name));
  const unset = Object.keys(surrounding).filter(
    (name) =>
      !kept.has(name) &&
      (isUnwanted(name) ||
        sidecarAddress.includes(name) ||
        name === 'NODE_USE_ENV_PROXY' ||
        namesService(name)),
  );
  return { set, unset };
}

const preload = fileURLToPath(new URL('agent-preload.cjs', import.meta.url));

/** Appends the preload to the existing options. If `run` is nested, does not append it again. */
function withPreload(options = ''): string {
  const option = `--require "${preload.replace(/["\\]/g, '\\$&')}"`;
  return options.includes(option) ? options : `${options} ${option}`.trimStart();
}

function bothCases(names: readonly string[], value: string): [string, string][] {
  return [...names.map((name) => name.toUpperCase()), ...names].map((name) => [name, value]);
}

// These settings stay in the environment, because they are not secret and `sallyport mcp` needs
// them if the command starts it.
const sidecarAddress = [
  'SALLYPORT_PROXY_HOST',
  'SALLYPORT_PROXY_PORT',
  'SALLYPORT_PROXY_ADMIN_PORT',
];

function isUnwanted(name: string): boolean {
  if (/_(?:no)?proxy$/i.test(name)) return true;
  return isSallyportSetting(name) && !sidecarAddress.includes(name);
}

/** True if a variable is a setting of Sallyport, which agents and tools may not read. */
export function isSallyportSetting(name: string): boolean {
  return name.startsWith('SALLYPORT_') || secretSettings.includes(name.replace(/_FILE$/, ''));
}

/** A copy of the environment with the change applied. */
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

/**
 * Writes the CA files into the user's cache folder. Each file is named after a hash of its content,
 * so that concurrent commands do not overwrite each other's files. The files stay there, because
 * child processes may outlive the command. CAs of `NODE_EXTRA_CA_CERTS` stay trusted.
 */
export function writeTrustFiles(
  caPem: string,
  env: Readonly<Record<string, string | undefined>>,
): Pick<ProxyAccess, 'addedCaPath' | 'wholeCaPath'> {
  const extra = getCACertificates('extra');
  const system = getCACertificates('system');
  const machine = system.length > 0 ? system : getCACertificates('bundled');
  const folder = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sallyport');
  try {
    mkdirSync(folder, { recursive: true });
    return {
      addedCaPath: storePem(folder, 'added', [caPem, ...extra]),
      wholeCaPath: storePem(folder, 'whole', [caPem, ...extra, ...machine]),
    };
  } catch (cause) {
    throw new SettingsError(
      `Cannot write the CA certificates to ${folder}. Set XDG_CACHE_HOME to a writable folder.`,
      { cause },
    );
  }
}

function storePem(folder: string, kind: string, pems: readonly string[]): string {
  const text = [...new Set(pems.map((pem) => `${pem.trim()}\n`))].join('');
  const name = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const path = join(folder, `${kind}-${name}.pem`);
  if (read(path) === text) return path;
  const draft = `${path}.${randomUUID()}`;
  writeFileSync(draft, text, { mode: 0o644, flag: 'wx' });
  renameSync(draft, path);
  return path;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

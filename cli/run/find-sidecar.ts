import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Config } from '../../proxy/settings/config.ts';
import { formatAuthority } from '../../shared/base/host.ts';
import { SettingsError } from '../../shared/base/settings.ts';

/** A sidecar that is ready and accepts this caller. */
export interface FoundSidecar {
  /** URL with the proxy token, if any, as the password. */
  readonly proxyUrl: string;
  /** The certificate of the sidecar's CA, PEM. */
  readonly caPem: string;
}

type SidecarAddress = Pick<Config, 'proxyHost' | 'proxyPort' | 'adminPort' | 'proxyToken'>;

/** Settings that name a sidecar's identity, and the corresponding members of its manifest. */
const identitySettings = {
  SALLYPORT_AGENT_ID: 'agent_id',
  SALLYPORT_USER_ID: 'user_id',
  SALLYPORT_ENVIRONMENT: 'environment',
} as const;

type WantedIdentity = {
  readonly [Setting in keyof typeof identitySettings]?: string | undefined;
};

interface Answer {
  readonly status: number;
  readonly body: string;
}

/**
 * Finds the sidecar that the settings name, and checks that it will decide calls: it is ready, its
 * proxy accepts the token, both ports belong to one sidecar, and its identity is the configured
 * one, if one is configured. Throws a `SettingsError` otherwise.
 */
export async function findSidecar(
  address: SidecarAddress,
  wanted: WantedIdentity = {},
): Promise<FoundSidecar> {
  const host = hostToDial(address.proxyHost);
  const admin = { host, port: address.adminPort, setting: 'SALLYPORT_PROXY_ADMIN_PORT' };
  assertReady(await get(admin, '/readyz'), formatAuthority(admin));
  const caPem = certificate(await get(admin, '/ca.crt'), formatAuthority(admin));
  const proxy = { host, port: address.proxyPort, setting: 'SALLYPORT_PROXY_PORT' };
  const seen = await get(proxy, 'http://sallyport.internal/ca.crt', address.proxyToken);
  if (seen.status === 407) {
    throw new SettingsError(
      `The proxy at ${formatAuthority(proxy)} requires another token: set SALLYPORT_PROXY_TOKEN to the sidecar's.`,
    );
  }
  if (certificate(seen, formatAuthority(proxy)) !== caPem) {
    throw new SettingsError(
      `${formatAuthority(proxy)} and ${formatAuthority(admin)} belong to two different sidecars: set SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_ADMIN_PORT to the ports of one sidecar.`,
    );
  }
  await assertIdentity(proxy, address.proxyToken, wanted);
  return { proxyUrl: proxyUrl(proxy, address.proxyToken), caPem };
}

/**
 * A sidecar keeps its enrolled identity, so the caller's settings are only compared with that
 * identity.
 */
async function assertIdentity(
  proxy: Endpoint,
  token: string | undefined,
  wanted: WantedIdentity,
): Promise<void> {
  const named = Object.entries(identitySettings).flatMap(([setting, member]) => {
    const value = wanted[setting as keyof WantedIdentity];
    return value === undefined || value === '' ? [] : [{ setting, member, value }];
  });
  if (named.length === 0) return;
  const { body } = await get(proxy, 'http://sallyport.internal/manifest', token);
  for (const { setting, member, value } of named) {
    const actual = memberOf(body, member);
    if (actual === undefined || actual === value) continue;
    throw new SettingsError(
      `${setting} is ${JSON.stringify(value)}, and the sidecar at ${formatAuthority(proxy)} acts for ${JSON.stringify(actual)}: it keeps the identity that it enrolled with. Unset ${setting}, or start a sidecar for that identity and name its ports.`,
    );
  }
}

function memberOf(body: string, member: string): string | undefined {
  try {
    const value: unknown = (JSON.parse(body) as Readonly<Record<string, unknown>>)[member];
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly setting: string;
}

/** A sidecar that listens on all addresses is reachable on loopback. */
function hostToDial(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function proxyUrl(proxy: Endpoint, token: string | undefined): string {
  const user = token === undefined ? '' : `sallyport:${encodeURIComponent(token)}@`;
  return `http://${user}${formatAuthority(proxy)}`;
}

/** The header value that clients derive from the proxy's URL. */
function basic(token: string): string {
  return `Basic ${Buffer.from(`sallyport:${token}`).toString('base64')}`;
}

function assertReady({ status, body }: Answer, where: string): void {
  if (status === 200) return;
  const readiness = status === 503 ? readinessIn(body) : undefined;
  if (readiness === undefined) throw noSidecar(where);
  const { isRevoked, reasons } = readiness;
  throw new SettingsError(
    isRevoked
      ? `The sidecar at ${where} denies every call. ${reasons}.`
      : `The sidecar at ${where} is not ready: ${reasons}.`,
  );
}

function readinessIn(
  body: string,
): { readonly isRevoked: boolean; readonly reasons: string } | undefined {
  try {
    const { code, reasons } = JSON.parse(body) as { code?: unknown; reasons?: unknown };
    if (!Array.isArray(reasons)) return undefined;
    const text = reasons.join('; ').replace(/\.$/, '');
    return { isRevoked: code !== undefined, reasons: text };
  } catch {
    return undefined;
  }
}

function certificate({ status, body }: Answer, where: string): string {
  if (status !== 200 || !body.startsWith('-----BEGIN CERTIFICATE-----')) throw noSidecar(where);
  return body;
}

function noSidecar(where: string): SettingsError {
  return new SettingsError(
    `The server at ${where} is not a sidecar of this version. Check SALLYPORT_PROXY_HOST, SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_ADMIN_PORT.`,
  );
}

const responseWithinMs = 5_000;
/**
 * Maximum size of a response. A manifest can be long, because it lists everything that is bound for
 * the agent.
 */
const responseBytesMax = 10_000_000;

/** Connects directly, without the proxy of the environment. */
async function get(endpoint: Endpoint, path: string, token?: string): Promise<Answer> {
  const { host, port, setting } = endpoint;
  const headers = path.startsWith('/') ? {} : { host: new URL(path).host };
  const proof = token === undefined ? {} : { 'proxy-authorization': basic(token) };
  try {
    return await new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(responseWithinMs);
      request({ host, port, path, agent: new Agent(), signal, headers: { ...headers, ...proof } })
        .on('error', reject)
        .on('response', (res) => {
          let bytes = 0;
          res.on('data', (chunk: Buffer) => {
            bytes += chunk.length;
            if (bytes > responseBytesMax) res.destroy(new Error('the response is too large'));
          });
          text(res).then((body) => resolve({ status: res.statusCode ?? 0, body }), reject);
        })
        .end();
    });
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? (cause as Error).message;
    throw new SettingsError(
      `No sidecar answers at ${formatAuthority(endpoint)} (${reason}). Start one, or set SALLYPORT_PROXY_HOST and ${setting} to its address.`,
      { cause },
    );
  }
}

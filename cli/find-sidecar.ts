import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Config } from '../proxy/settings/config.ts';
import { SettingsError } from '../shared/base/settings.ts';

/** A sidecar that answers, decides, and takes this caller. */
export interface FoundSidecar {
  /** With the proxy token as password, where one is set. */
  readonly proxyUrl: string;
  /** The certificate of its authority. */
  readonly caPem: string;
}

type Where = Pick<Config, 'proxyHost' | 'proxyPort' | 'adminPort' | 'proxyToken'>;

interface Answer {
  readonly status: number;
  readonly body: string;
}

/**
 * Finds the sidecar that the settings name, and makes sure that calls through it will be decided:
 * it is ready, its proxy takes the token, and both ports are those of one sidecar. Throws a
 * `SettingsError` that says what is wrong.
 */
export async function findSidecar(where: Where): Promise<FoundSidecar> {
  const host = dialled(where.proxyHost);
  const admin = { host, port: where.adminPort, setting: 'SALLYPORT_PROXY_ADMIN_PORT' };
  assertReady(await get(admin, '/readyz'), describe(admin));
  const caPem = certificate(await get(admin, '/ca.crt'), describe(admin));
  const proxy = { host, port: where.proxyPort, setting: 'SALLYPORT_PROXY_PORT' };
  const seen = await get(proxy, 'http://sallyport.internal/ca.crt', where.proxyToken);
  if (seen.status === 407) {
    throw new SettingsError(
      `The proxy at ${describe(proxy)} asks for another token: set SALLYPORT_PROXY_TOKEN to the sidecar's.`,
    );
  }
  if (certificate(seen, describe(proxy)) !== caPem) {
    throw new SettingsError(
      `${describe(proxy)} and ${describe(admin)} are two different sidecars: set SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_ADMIN_PORT to the ports of one.`,
    );
  }
  return { proxyUrl: proxyUrl(proxy, where.proxyToken), caPem };
}

interface Door {
  readonly host: string;
  readonly port: number;
  readonly setting: string;
}

/** Who listens everywhere is reached on this machine. */
function dialled(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function describe({ host, port }: Door): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function proxyUrl(proxy: Door, token: string | undefined): string {
  const user = token === undefined ? '' : `sallyport:${encodeURIComponent(token)}@`;
  return `http://${user}${describe(proxy)}`;
}

/** As clients send it that find the token in the proxy's URL. */
function basic(token: string): string {
  return `Basic ${Buffer.from(`sallyport:${token}`).toString('base64')}`;
}

function assertReady({ status, body }: Answer, where: string): void {
  if (status === 200) return;
  const told = status === 503 ? readinessIn(body) : undefined;
  if (told === undefined) throw noSidecar(where);
  const { isRevoked, reasons } = told;
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
    `What answers at ${where} is not a sidecar of this version: see SALLYPORT_PROXY_HOST, SALLYPORT_PROXY_PORT and SALLYPORT_PROXY_ADMIN_PORT.`,
  );
}

const answersWithinMs = 5_000;
const answerBytesMax = 100_000;

/** Asks straight, past any proxy that the environment names. */
async function get(door: Door, path: string, token?: string): Promise<Answer> {
  const { host, port, setting } = door;
  const headers = path.startsWith('/') ? {} : { host: new URL(path).host };
  const proof = token === undefined ? {} : { 'proxy-authorization': basic(token) };
  try {
    return await new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(answersWithinMs);
      request({ host, port, path, agent: new Agent(), signal, headers: { ...headers, ...proof } })
        .on('error', reject)
        .on('response', (res) => {
          let bytes = 0;
          res.on('data', (chunk: Buffer) => {
            bytes += chunk.length;
            if (bytes > answerBytesMax) res.destroy(new Error('the answer is too large'));
          });
          text(res).then((body) => resolve({ status: res.statusCode ?? 0, body }), reject);
        })
        .end();
    });
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? (cause as Error).message;
    throw new SettingsError(
      `No sidecar answers at ${describe(door)} (${reason}). Start one, or set SALLYPORT_PROXY_HOST and ${setting} to where it listens.`,
      { cause },
    );
  }
}

import { readFile } from 'node:fs/promises';
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { OidcIssuer } from '../platform/config/issuer-settings.ts';
import { fetchJson } from './fetch-json.ts';

type KeySet = JWTVerifyGetKey;

interface IssuerKeysOptions {
  readonly issuer: OidcIssuer;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly guard: Guard;
  readonly log: Log;
}

/** Keys are fetched again after this time, so that a withdrawn key is not accepted for longer. */
const ageMsMax = 600_000;
/** An unknown key id causes at most one fetch within this time. */
const coolDownMs = 30_000;
/** After a failed fetch, callers get the same failure for this long, without another fetch. */
const retryMs = 2_000;

/**
 * The keys of one issuer. Fetches them at the first use, when they are too old, and when a token
 * names an unknown key. Concurrent callers share one fetch.
 */
export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #held: { readonly keys: KeySet; readonly atMs: number } | undefined;
  #failed: { readonly error: GatewayError; readonly atMs: number } | undefined;
  #fetching: Promise<KeySet> | undefined;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
  }

  /** The key of a token, as `jwtVerify` requests it. Throws `workload.keys_unavailable`. */
  readonly keyOf: KeySet = async (header, token) => {
    if (typeof header?.kid !== 'string') throw new errors.JWKSNoMatchingKey();
    const keys = await this.#keys(ageMsMax);
    try {
      return await keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      const newer = await this.#keys(coolDownMs);
      if (newer === keys) throw error;
      return newer(header, token);
    }
  };

  #keys(ageMs: number): Promise<KeySet> {
    const nowMs = this.#options.clock.monotonic();
    if (this.#held !== undefined && nowMs - this.#held.atMs < ageMs) {
      return Promise.resolve(this.#held.keys);
    }
    if (this.#failed !== undefined && nowMs - this.#failed.atMs < retryMs) {
      return Promise.reject(this.#failed.error);
    }
    this.#fetching ??= this.#load().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #load(): Promise<KeySet> {
    const { issuer, clock, log } = this.#options;
    try {
      const keys = createLocalJWKSet((await this.#fetch()) as unknown as JSONWebKeySet);
      this.#held = { keys, atMs: clock.monotonic() };
      this.#failed = undefined;
      return keys;
    } catch (cause) {
      const error = new GatewayError('workload.keys_unavailable', { cause });
      this.#failed = { error, atMs: clock.monotonic() };
      log.warn(
        { err: cause, issuer: issuer.issuer, reason_code: error.code },
        'the keys of an issuer could not be fetched',
      );
      throw error;
    }
  }

  async #fetch(): Promise<object> {
    const { issuer, jwksUrl, jwksFile, caFile, tokenFile } = this.#options.issuer;
    if (jwksFile !== undefined) return JSON.parse(await readFile(jwksFile, 'utf8'));
    if (jwksUrl !== undefined) return fetchJson({ url: jwksUrl, caFile, tokenFile });
    const discovery = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const { issuer: named, jwks_uri: url } = await fetchJson({ url: discovery, caFile, tokenFile });
    // OpenID Connect Discovery 1.0, section 4.3: the two must be identical.
    if (named !== issuer) throw new Error(`${discovery} names another issuer`);
    if (typeof url !== 'string' || URL.parse(url)?.protocol !== 'https:') {
      throw new Error(`${discovery} names no jwks_uri that begins with https://`);
    }
    if (new URL(url).origin === new URL(issuer).origin)
      return fetchJson({ url, caFile, tokenFile });
    return fetchJson({ url, caFile, guard: this.#options.guard });
  }
}

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { startUpstream } from '../sidecar/upstream.ts';

/** An OIDC issuer over TLS, such as the API server of a cluster. */
export interface OidcIssuer {
  readonly issuer: string;
  /** PEM file of the authority that signed its certificate. */
  readonly caFile: string;
  /** Folder for further files of a test. */
  readonly folder: string;
  /** Paths that were requested, in order, each with its Authorization header. */
  readonly asked: readonly { readonly path: string; readonly authorization: string | undefined }[];
  readonly kid: string;
  /** Returns the public keys that the issuer publishes at this moment. */
  jwks(): { readonly keys: readonly object[] };
  /** Replaces the signing key. The former key is no longer published. */
  rotate(alg?: string): Promise<void>;
  /**
   * Sets the response to later requests for a path; undefined restores the issuer's own response.
   */
  behave(path: string, answer: Answer | undefined): void;
  /**
   * Returns a token of the pod. `changes` override its claims; the value undefined removes a claim.
   */
  token(changes?: Changes, options?: SignOptions): Promise<string>;
  close(): Promise<void>;
}

type Answer = (req: IncomingMessage, res: ServerResponse, body: string) => void;

/** Claims that differ from those of a valid token. */
export type Changes = Readonly<Record<string, unknown>>;

export interface SignOptions {
  readonly header?: Readonly<Record<string, unknown>>;
  /** Default: the issuer's key. */
  readonly key?: CryptoKey | Uint8Array;
}

export interface Pod {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly name: string;
  readonly uid: string;
}

export const billingPod: Pod = {
  namespace: 'billing',
  serviceAccount: 'refund-agent',
  name: 'refund-agent-7d4b',
  uid: '0b6c4f0e-0000-4000-8000-000000000001',
};

/**
 * Returns the claims of a projected service account token with one audience, which is valid for ten
 * minutes.
 */
export function claimsOf(issuer: string, pod: Pod, nowMs: number): JWTPayload {
  const now = Math.floor(nowMs / 1000);
  return {
    iss: issuer,
    sub: `system:serviceaccount:${pod.namespace}:${pod.serviceAccount}`,
    aud: ['sallyport'],
    iat: now,
    nbf: now,
    exp: now + 600,
    jti: 'b7f3c0de-0000-4000-8000-000000000000',
    'kubernetes.io': {
      namespace: pod.namespace,
      node: { name: 'node-1', uid: 'f1' },
      pod: { name: pod.name, uid: pod.uid },
      serviceaccount: { name: pod.serviceAccount, uid: 'a1' },
    },
  };
}

export const discoveryPath = '/.well-known/openid-configuration';
export const jwksPath = '/openid/v1/jwks';

interface IssuerOptions {
  /** The clock for the times in tokens. Default: the system's clock. */
  readonly now?: () => number;
  readonly pod?: Pod;
}

/** Starts an issuer on the loopback address with one RS256 key. */
export async function startOidcIssuer({
  now = () => Date.now(),
  pod = billingPod,
}: IssuerOptions = {}): Promise<OidcIssuer> {
  const folder = mkdtempSync(join(tmpdir(), 'issuer-'));
  const authority = loadAuthority({ dataDir: folder, clock: systemClock });
  const caFile = join(folder, 'cluster-ca.pem');
  writeFileSync(caFile, authority.certPem);
  const { key, cert } = authority.leafFor('127.0.0.1');
  const server = await startUpstream({ tls: { key, cert } });
  const issuer = `https://127.0.0.1:${server.port}`;
  const special = new Map<string, Answer>();
  let current = await newKey(1, 'RS256');
  let made = 1;
  const jwks = () => ({ keys: [current.jwk] });
  const json = (res: ServerResponse, value: object) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify(value));
  };
  server.behave((req, res, body) => {
    const path = req.url ?? '';
    const answer = special.get(path);
    if (answer !== undefined) answer(req, res, body);
    else if (path === discoveryPath) json(res, { issuer, jwks_uri: `${issuer}${jwksPath}` });
    else if (path === jwksPath) json(res, jwks());
    else res.writeHead(404).end();
  });
  return {
    issuer,
    caFile,
    folder,
    get asked() {
      return server.seen.map(({ url, headers }) => ({
        path: url,
        authorization: headers.authorization,
      }));
    },
    get kid() {
      return current.kid;
    },
    jwks,
    async rotate(alg = 'RS256') {
      made += 1;
      current = await newKey(made, alg);
    },
    behave: (path, answer) => {
      if (answer === undefined) special.delete(path);
      else special.set(path, answer);
    },
    async token(changes = {}, { header = {}, key: signingKey = current.privateKey } = {}) {
      const claims = { ...claimsOf(issuer, pod, now()), ...changes };
      const { alg, kid } = current;
      return new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(signingKey);
    },
    async close() {
      await server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function newKey(number: number, alg: string) {
  const { publicKey, privateKey } = await generateKeyPair(alg);
  const kid = `key-${number}`;
  return { alg, kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

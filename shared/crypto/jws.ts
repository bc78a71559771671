import { sign, verify } from 'node:crypto';
import { isJsonObject, type JsonObject } from '../base/json.ts';
import type { SigningKey, VerificationKey, VerificationKeys } from './signing-key.ts';

/** Maximum length of an untrusted token. */
const tokenLengthMax = 65_536;

const compactForm = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

export type JwsResult =
  | { readonly ok: true; readonly payload: JsonObject; readonly kid: string }
  | {
      readonly ok: false;
      readonly problem: 'malformed' | 'signature_invalid';
      readonly detail: string;
    };

/**
 * Signs a JSON payload as a compact JWS (RFC 7515). `typ` names the payload type, so that a
 * signature made for one purpose is never valid for another (RFC 8725 section 3.11).
 */
export function signJws(payload: object, typ: string, key: SigningKey): string {
  const header = encode(JSON.stringify({ alg: key.alg, kid: key.kid, typ }));
  const signingInput = `${header}.${encode(JSON.stringify(payload))}`;
  return `${signingInput}.${signBytes(Buffer.from(signingInput), key).toString('base64url')}`;
}

/** The `kid` in a token, unverified. */
export function signerOf(token: string): string | undefined {
  const header = readJson(token.split('.', 1)[0] ?? '');
  return isJsonObject(header) && typeof header.kid === 'string' ? header.kid : undefined;
}

/** Signs the text as a detached JWS (RFC 7515 appendix F): `header..signature`. */
export function signDetached(text: string, typ: string, key: SigningKey): string {
  const header = encode(JSON.stringify({ alg: key.alg, kid: key.kid, typ }));
  const signature = signBytes(Buffer.from(`${header}.${encode(text)}`), key);
  return `${header}..${signature.toString('base64url')}`;
}

/**
 * Verifies form, `typ`, key and signature of a compact JWS, in that order. Never throws. A token
 * longer than `lengthMax` is refused without parsing.
 */
export function verifyJws(
  token: string,
  typ: string,
  keys: VerificationKeys,
  lengthMax = tokenLengthMax,
): JwsResult {
  const parsed = parseJws(token, typ, keys, lengthMax);
  if (!parsed.ok) return parsed;
  return verifyBytes(parsed.signed, parsed.signature, parsed.key)
    ? { ok: true, payload: parsed.payload, kid: parsed.key.kid }
    : { ok: false, problem: 'signature_invalid', detail: 'the signature does not match' };
}

/** Like `verifyJws`, but verifies the signature on the thread pool. For hot paths. */
export async function verifyJwsAsync(
  token: string,
  typ: string,
  keys: VerificationKeys,
): Promise<JwsResult> {
  const parsed = parseJws(token, typ, keys, tokenLengthMax);
  if (!parsed.ok) return parsed;
  const { signed, signature, key, payload } = parsed;
  const matches = await new Promise<boolean>((resolve) => {
    verify(digestOf(key), signed, verifyOptions(key), signature, (error, ok) =>
      resolve(error === null && ok),
    );
  });
  return matches
    ? { ok: true, payload, kid: key.kid }
    : { ok: false, problem: 'signature_invalid', detail: 'the signature does not match' };
}

/** Verifies a detached JWS over `text`. */
export function verifyDetached(
  jws: string,
  text: string,
  typ: string,
  keys: VerificationKeys,
): boolean {
  const [header, middle, signature, ...rest] = jws.split('.');
  if (!header || middle !== '' || !signature || rest.length > 0) return false;
  const key = keyOf(readJson(header), typ, keys);
  if (typeof key === 'string') return false;
  const signed = Buffer.from(`${header}.${encode(text)}`);
  return verifyBytes(signed, Buffer.from(signature, 'base64url'), key);
}

type Parsed =
  | {
      readonly ok: true;
      readonly signed: Buffer;
      readonly signature: Buffer;
      readonly key: VerificationKey;
      readonly payload: JsonObject;
    }
  | {
      readonly ok: false;
      readonly problem: 'malformed' | 'signature_invalid';
      readonly detail: string;
    };

function parseJws(token: string, typ: string, keys: VerificationKeys, lengthMax: number): Parsed {
  if (token.length > lengthMax || !compactForm.test(token)) {
    return { ok: false, problem: 'malformed', detail: 'not three base64url parts' };
  }
  const [header = '', body = '', signature = ''] = token.split('.');
  const key = keyOf(readJson(header), typ, keys);
  if (typeof key === 'string') {
    return {
      ok: false,
      problem: key === 'unknown key' ? 'signature_invalid' : 'malformed',
      detail: key,
    };
  }
  const payload = readJson(body);
  if (!isJsonObject(payload))
    return { ok: false, problem: 'malformed', detail: 'the payload is not a JSON object' };
  return {
    ok: true,
    signed: Buffer.from(`${header}.${body}`),
    signature: Buffer.from(signature, 'base64url'),
    key,
    payload,
  };
}

/** The key that a header names, or the problem with the header. */
function keyOf(header: unknown, typ: string, keys: VerificationKeys): VerificationKey | string {
  if (!isJsonObject(header)) return 'the header is not a JSON object';
  if (header.crit !== undefined) return 'critical header extensions (crit) are not supported';
  if (header.typ !== typ) return `typ is not ${typ}`;
  if (typeof header.kid !== 'string') return 'the header has no kid';
  const key = keys.get(header.kid);
  if (key === undefined) return 'unknown key';
  // RFC 9864 renames EdDSA with this curve to Ed25519; key and signature are the same.
  const alg = header.alg === 'Ed25519' ? 'EdDSA' : header.alg;
  return alg === key.alg ? key : 'alg does not match the key';
}

/** Signs bytes; ES256 signatures have the raw r‖s form of RFC 7518. */
export function signBytes(data: Uint8Array, key: SigningKey): Buffer {
  return key.alg === 'EdDSA'
    ? sign(null, data, key.privateKey)
    : sign('sha256', data, { key: key.privateKey, dsaEncoding: 'ieee-p1363' });
}

export function verifyBytes(
  data: Uint8Array,
  signature: Uint8Array,
  key: VerificationKey,
): boolean {
  return verify(digestOf(key), data, verifyOptions(key), signature);
}

function digestOf(key: VerificationKey): string | null {
  return key.alg === 'EdDSA' ? null : 'sha256';
}

function verifyOptions(key: VerificationKey) {
  return key.alg === 'EdDSA'
    ? { key: key.publicKey }
    : { key: key.publicKey, dsaEncoding: 'ieee-p1363' as const };
}

function encode(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64url');
}

function readJson(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}

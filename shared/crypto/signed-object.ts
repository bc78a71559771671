import { isJsonObject } from '../base/json.ts';
import { sha256 } from './hash.ts';
import { canonicalJson } from './jcs.ts';
import { signDetached, verifyDetached } from './jws.ts';
import type { SigningAlgorithm, SigningKey, VerificationKeys } from './signing-key.ts';

/** The signature member of signed objects (exports, reports, certificates). */
export interface ObjectSignature {
  readonly alg: SigningAlgorithm;
  readonly kid: string;
  /** `sha256:<hex>` of the signed text. */
  readonly payload_sha256: string;
  /** A detached JWS over the JCS form of the object without its signature. */
  readonly jws: string;
}

const members = ['alg', 'kid', 'payload_sha256', 'jws'] as const;

/** Checks the form of a signature. Further members are refused, because they would be unsigned. */
export function isObjectSignature(value: unknown): value is ObjectSignature {
  return (
    isJsonObject(value) &&
    Object.keys(value).length === members.length &&
    members.every((name) => typeof value[name] === 'string')
  );
}

/** Signs the JCS form of an object. `typ` names the kind of object; each kind has its own. */
export function signObject(object: object, typ: string, key: SigningKey): ObjectSignature {
  const text = canonicalJson(object);
  return {
    alg: key.alg,
    kid: key.kid,
    payload_sha256: sha256(text),
    jws: signDetached(text, typ, key),
  };
}

interface Claimed {
  readonly object: object;
  readonly signature: ObjectSignature;
  readonly typ: string;
}

/** True if every member of the signature is exactly what one of the keys would produce. */
export function verifyObject({ object, signature, typ }: Claimed, keys: VerificationKeys): boolean {
  const text = textOf(object);
  const key = keys.get(signature.kid);
  if (text === undefined || key === undefined) return false;
  if (key.alg !== signature.alg) return false;
  if (signature.payload_sha256 !== sha256(text) || !isPlain(signature.jws)) return false;
  return verifyDetached(signature.jws, text, typ, new Map([[key.kid, key]]));
}

/**
 * Returns the canonical JSON of an object; undefined if there is none, so that the object cannot
 * have been signed.
 */
function textOf(object: object): string | undefined {
  try {
    return canonicalJson(object);
  } catch {
    return undefined;
  }
}

/**
 * True if every part is canonical base64url. Other texts could differ in bits that decoders ignore.
 */
function isPlain(jws: string): boolean {
  return jws
    .split('.')
    .every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
}

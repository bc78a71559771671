import { isJsonObject } from '../base/json.ts';
import { sha256 } from './hash.ts';
import { canonicalJson } from './jcs.ts';
import { signDetached, verifyDetached } from './jws.ts';
import type { SigningAlgorithm, SigningKey, VerificationKeys } from './signing-key.ts';

/** What signed objects (exports, reports, certificates) carry beside what they say. */
export interface ObjectSignature {
  readonly alg: SigningAlgorithm;
  readonly kid: string;
  /** `sha256:<hex>` of the signed text. */
  readonly payload_sha256: string;
  /** A detached JWS over the JCS form of the object without its signature. */
  readonly jws: string;
}

const members = ['alg', 'kid', 'payload_sha256', 'jws'] as const;

/** Reads what stands for a signature; a member beside those would be one that nobody signed. */
export function isObjectSignature(value: unknown): value is ObjectSignature {
  return (
    isJsonObject(value) &&
    Object.keys(value).length === members.length &&
    members.every((name) => typeof value[name] === 'string')
  );
}

/** Signs the JCS form of an object. `typ` names what it is: each kind has one of its own. */
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

/** True where every member of the signature is what signing with one of the keys gives. */
export function verifyObject({ object, signature, typ }: Claimed, keys: VerificationKeys): boolean {
  const text = textOf(object);
  const key = keys.get(signature.kid);
  if (text === undefined || key === undefined) return false;
  if (key.alg !== signature.alg) return false;
  if (signature.payload_sha256 !== sha256(text) || !isPlain(signature.jws)) return false;
  return verifyDetached(signature.jws, text, typ, new Map([[key.kid, key]]));
}

/** Undefined for what has no canonical form: nobody signed that. */
function textOf(object: object): string | undefined {
  try {
    return canonicalJson(object);
  } catch {
    return undefined;
  }
}

/** Base64url that decodes and encodes to itself: the last character has bits that nobody reads. */
function isPlain(jws: string): boolean {
  return jws
    .split('.')
    .every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
}

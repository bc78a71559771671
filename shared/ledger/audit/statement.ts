import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { sha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import {
  isObjectSignature,
  type ObjectSignature,
  signObject,
  verifyObject,
} from '../../crypto/signed-object.ts';
import type { SigningKey, VerificationKeys } from '../../crypto/signing-key.ts';

export const auditFormats = ['json', 'csv', 'md'] as const;
export type AuditFormat = (typeof auditFormats)[number];

/** `typ` of a signed audit trail, so that the signature is not valid for another kind of object. */
const auditTyp = 'audit-trail+jws';

const marker = 'sallyport-audit:';
const wraps = {
  csv: { before: `# ${marker}`, after: '\r\n' },
  md: { before: `\n<!-- ${marker}`, after: ' -->\n' },
} as const;

/** Returns a JSON trail with its signature as a member. */
export function signTrail<Trail extends object>(
  trail: Trail,
  key: SigningKey,
): Trail & { readonly signature: ObjectSignature } {
  return { ...trail, signature: signObject(trail, auditTyp, key) };
}

/**
 * Signs a text trail: appends a trailer that states the number and the hash of the preceding bytes.
 */
export function signTrailText(
  content: string,
  facts: { readonly format: 'csv' | 'md'; readonly tenant: string; readonly created_at: string },
  key: SigningKey,
): string {
  const bytes = Buffer.byteLength(content);
  const statement = { ...facts, type: 'audit-trail', bytes, content_sha256: sha256(content) };
  const signature = signObject(statement, auditTyp, key);
  const word = Buffer.from(canonicalJson({ signature, statement })).toString('base64url');
  const { before, after } = wraps[facts.format];
  return `${content}${before}${word}${after}`;
}

/** The description in a verified trail. */
export interface TrailFacts {
  readonly tenant: string;
  readonly format: AuditFormat;
  readonly created_at: string;
  readonly signed_by: string;
}

/** True if a file begins like a JSON trail or ends like a text trail. */
export function looksLikeTrail(head: string, tail: string): boolean {
  return head.startsWith('{"chains":') || textTrailer.test(tail);
}

/** Returns the description of a trail if one of these keys signed every byte of the trail. */
export function verifyTrail(file: Uint8Array, keys: VerificationKeys): TrailFacts | undefined {
  const text = Buffer.from(file).toString('utf8');
  // Invalid UTF-8 would be replaced when decoded, so the text would differ from the file.
  if (!Buffer.from(text).equals(file)) return undefined;
  return text.startsWith('{') ? verifyJson(text, keys) : verifyText(text, keys);
}

function verifyJson(text: string, keys: VerificationKeys): TrailFacts | undefined {
  const trail = parse(text);
  if (!isJsonObject(trail)) return undefined;
  const { signature, ...object } = trail;
  // Compares with the canonical form, so that duplicate members or added spaces are detected.
  if (text !== `${canonicalText(trail)}\n` || !isObjectSignature(signature)) return undefined;
  return signedFacts({ ...object, format: 'json' }, { object, signature }, keys);
}

const textTrailer = new RegExp(`${marker}([\\w-]+)(?: -->\\n|\\r\\n)$`);

function verifyText(text: string, keys: VerificationKeys): TrailFacts | undefined {
  const [, word = ''] = textTrailer.exec(text) ?? [];
  const signed = parse(Buffer.from(word, 'base64url').toString('utf8'));
  if (!isJsonObject(signed)) return undefined;
  const { statement, signature } = signed;
  if (!isJsonObject(statement) || !isObjectSignature(signature)) return undefined;
  const { format, bytes } = statement;
  if (format !== 'csv' && format !== 'md') return undefined;
  const { before, after } = wraps[format];
  const again = Buffer.from(canonicalText({ signature, statement }));
  const trailer = `${before}${again.toString('base64url')}${after}`;
  if (!text.endsWith(trailer)) return undefined;
  const content = text.slice(0, -trailer.length);
  if (bytes !== Buffer.byteLength(content)) return undefined;
  if (statement.content_sha256 !== sha256(content)) return undefined;
  return signedFacts({ ...statement, format }, { object: statement, signature }, keys);
}

function signedFacts(
  said: JsonObject & { readonly format: AuditFormat },
  signed: { readonly object: object; readonly signature: ObjectSignature },
  keys: VerificationKeys,
): TrailFacts | undefined {
  const { type, tenant, created_at, format } = said;
  if (type !== 'audit-trail' || !verifyObject({ ...signed, typ: auditTyp }, keys)) return undefined;
  const signed_by = signed.signature.kid;
  return { tenant: String(tenant), created_at: String(created_at), format, signed_by };
}

/** Returns the canonical JSON of a value. If there is none, returns an empty text, which equals no file. */
function canonicalText(value: object): string {
  try {
    return canonicalJson(value);
  } catch {
    return '';
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

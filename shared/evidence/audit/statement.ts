import { sha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import {
  isObjectSignature,
  type ObjectSignature,
  signObject,
  verifyObject,
} from '../../crypto/signed-object.ts';
import type { SigningKey, VerificationKeys } from '../../crypto/signing-key.ts';
import { isJsonObject } from '../../json.ts';

export const auditFormats = ['json', 'csv', 'md'] as const;
export type AuditFormat = (typeof auditFormats)[number];

/** `typ` of a signed audit trail: no signature made for another purpose passes for one. */
const auditTyp = 'audit-trail+jws';

const marker = 'sallyport-audit:';
const wraps = {
  csv: { before: `# ${marker}`, after: '\r\n' },
  md: { before: `\n<!-- ${marker}`, after: ' -->\n' },
} as const;

/** A JSON trail with its signature beside what it says. */
export function signTrail<Trail extends object>(
  trail: Trail,
  key: SigningKey,
): Trail & { readonly signature: ObjectSignature } {
  return { ...trail, signature: signObject(trail, auditTyp, key) };
}

/** A text that ends with a signed statement: how many bytes precede it, and their hash. */
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

/** True where every byte of an exported trail is what one of these keys signed. */
export function verifyTrail(file: Uint8Array, keys: VerificationKeys): boolean {
  const text = Buffer.from(file).toString('utf8');
  // Bytes that are no UTF-8 would be read as something else than they are.
  if (!Buffer.from(text).equals(file)) return false;
  return text.startsWith('{') ? verifyJson(text, keys) : verifyText(text, keys);
}

function verifyJson(text: string, keys: VerificationKeys): boolean {
  const trail = parse(text);
  if (!isJsonObject(trail)) return false;
  const { signature, ...object } = trail;
  // One way to write it: a member given twice, or a space, was not there when it was signed.
  if (text !== `${canonicalJson(trail)}\n` || !isObjectSignature(signature)) return false;
  return object.type === 'audit-trail' && verifyObject({ object, signature, typ: auditTyp }, keys);
}

function verifyText(text: string, keys: VerificationKeys): boolean {
  const [, word = ''] = new RegExp(`${marker}([\\w-]+)(?: -->\\n|\\r\\n)$`).exec(text) ?? [];
  const signed = parse(Buffer.from(word, 'base64url').toString('utf8'));
  if (!isJsonObject(signed)) return false;
  const { statement, signature } = signed;
  if (!isJsonObject(statement) || !isObjectSignature(signature)) return false;
  const { format, bytes } = statement;
  if (format !== 'csv' && format !== 'md') return false;
  const { before, after } = wraps[format];
  const again = Buffer.from(canonicalJson({ signature, statement }));
  const trailer = `${before}${again.toString('base64url')}${after}`;
  if (!text.endsWith(trailer)) return false;
  const content = text.slice(0, -trailer.length);
  return (
    bytes === Buffer.byteLength(content) &&
    statement.content_sha256 === sha256(content) &&
    statement.type === 'audit-trail' &&
    verifyObject({ object: statement, signature, typ: auditTyp }, keys)
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

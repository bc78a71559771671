import type { JsonObject, JsonValue } from '../../base/json.ts';
import { recordableText } from './recordable-text.ts';

/** Limits for one call: more than a human reads, and small compared with the ledger's limits. */
const limits = {
  depth: 12,
  nodes: 1_000,
  textCharacters: 1_000,
  readCharacters: 4_000,
  tailCharacters: 400,
} as const;

const redacted = '[redacted]';
const cut = '[cut]';

/** Parts of names that mark values as sensitive, in lower case without separators. */
const sensitiveParts = [
  'password',
  'passwd',
  'passphrase',
  'secret',
  'token',
  'apikey',
  'authorization',
  'credential',
  'privatekey',
  'cookie',
  'cardnumber',
  'creditcard',
  'accountnumber',
  'socialsecurity',
  'birthdate',
  'dateofbirth',
  'passport',
  'taxid',
  'email',
  'phone',
];
const sensitiveNames = new Set([
  'pin',
  'cvv',
  'cvc',
  'cvv2',
  'iban',
  'bic',
  'ssn',
  'dob',
  'otp',
  'pwd',
  'pan',
  'auth',
  'firstname',
  'lastname',
  'fullname',
  'street',
  'address',
  'zipcode',
  'postcode',
]);

interface Redaction {
  readonly own: ReadonlySet<string>;
  left: number;
}

/**
 * Redacts arguments for storage. Replaces values of fields with sensitive names (built-in, and the
 * tenant's list), and text that looks like personal data or a secret. Patterns can miss sensitive
 * data, so the result is stored encrypted and can be erased.
 */
export function redactArguments(args: JsonObject, sensitiveFields: readonly string[]): JsonObject {
  const own = new Set(sensitiveFields.map((field) => field.split('.').map(plainName).join('.')));
  return redactMembers(args, [], { own, left: limits.nodes });
}

function redactMembers(
  value: JsonObject,
  path: readonly string[],
  redaction: Redaction,
): JsonObject {
  const members: [string, JsonValue][] = [];
  for (const [name, member] of Object.entries(value)) {
    if (redaction.left <= 0) break;
    redaction.left -= 1;
    const inner = [...path, plainName(name)];
    const kept = isSensitive(inner, redaction)
      ? redacted
      : redactValue(member ?? null, inner, redaction);
    members.push([keptName(name), kept]);
  }
  return Object.fromEntries(members);
}

function redactValue(value: JsonValue, path: readonly string[], redaction: Redaction): JsonValue {
  if (typeof value === 'string') return keptText(value);
  if (typeof value === 'number') return isCard(String(value)) ? '[redacted:card]' : value;
  if (typeof value !== 'object' || value === null) return value;
  if (path.length >= limits.depth) return cut;
  if (!isList(value)) return redactMembers(value, path, redaction);
  const items: JsonValue[] = [];
  for (const item of value) {
    if (redaction.left <= 0) break;
    redaction.left -= 1;
    // Lists count as a level too.
    items.push(redactValue(item, [...path, ''], redaction));
  }
  return items;
}

function isList(value: JsonObject | readonly JsonValue[]): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/**
 * Redacts a text, then cuts it to the limit. Redacts first, because half a secret matches no
 * pattern.
 */
export function keptText(text: string): string {
  const plain = redactText(text.slice(0, limits.readCharacters));
  const isRead = text.length <= limits.readCharacters;
  if (isRead && plain.length <= limits.textCharacters) return recordableText(plain);
  // The end of a cut text is dropped, because it may be half of a secret.
  const sure = isRead ? plain.length : Math.max(0, plain.length - limits.tailCharacters);
  return recordableText(`${plain.slice(0, Math.min(sure, limits.textCharacters))}${cut}`);
}

function keptName(name: string): string {
  return name === '__proto__' ? '(__proto__)' : keptText(name).slice(0, 200);
}

function isSensitive(path: readonly string[], { own }: Redaction): boolean {
  const name = path.at(-1) ?? '';
  const dotted = path.filter((part) => part !== '').join('.');
  return (
    own.has(name) ||
    own.has(dotted) ||
    sensitiveNames.has(name) ||
    sensitiveParts.some((part) => name.includes(part))
  );
}

/** Normalises names such as `card_number`, `cardNumber` and `Card-Number`. */
function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** Long runs that mix letters and digits are usually keys, not words. */
const runForm = /[A-Za-z0-9+/_=-]{24,}/g;
const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const secretForms: readonly RegExp[] = [
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g,
  /\b(?:apk|sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeoprs]|npm|hvs)[_-][A-Za-z0-9_-]{8,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{12,}/g,
  /\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*/g,
  /\b(?:bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}/gi,
  // The user information of a URL.
  /(?<=:\/\/)[^\s/@]{1,200}@/g,
  /\b(?:password|passwd|secret|token|api[_-]?key)\s{0,3}[=:]\s{0,3}\S{1,200}/gi,
];
const emailForm = /[\p{L}\p{N}._%+'-]{1,64}@[\p{L}\p{N}.-]{1,253}\.\p{L}{2,24}/gu;
const ibanForm = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b/g;
const digitsForm = /(?<![\d.])\d(?:[ -]?\d){11,18}(?!\d)/g;
const phoneForm = /(?<![\w.])(?:\+|00)\d(?:[ ()./-]{0,2}\d){6,14}/g;

/** Replaces text that looks like a secret, card, account, e-mail address or phone number. */
export function redactText(text: string): string {
  let plain = text;
  for (const form of secretForms) plain = plain.replaceAll(form, '[redacted:secret]');
  return plain
    .replaceAll(emailForm, '[redacted:email]')
    .replaceAll(ibanForm, '[redacted:account]')
    .replaceAll(digitsForm, (digits) => (isCard(digits) ? '[redacted:card]' : digits))
    .replaceAll(phoneForm, '[redacted:phone]')
    .replaceAll(runForm, (run) => (isKeyLike(run) ? '[redacted:secret]' : run));
}

function isKeyLike(run: string): boolean {
  return /\d/.test(run) && /[A-Za-z]/.test(run) && !uuidForm.test(run);
}

/** True if the digits have a valid card check digit (Luhn). */
function isCard(text: string): boolean {
  const digits = [...text].filter((character) => character >= '0' && character <= '9').map(Number);
  if (digits.length < 12 || digits.length > 19) return false;
  const sum = digits.toReversed().reduce((total, digit, index) => {
    const doubled = index % 2 === 0 ? digit : digit * 2;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

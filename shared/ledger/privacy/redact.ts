import type { JsonObject, JsonValue } from '../../base/json.ts';
import { recordableText } from './recordable-text.ts';
import { isCard, redactText } from './redact-text.ts';

/** Of one call: more than a human reads, and little beside what the ledger takes. */
const limits = {
  depth: 12,
  nodes: 1_000,
  textCharacters: 1_000,
  readCharacters: 4_000,
  tailCharacters: 400,
} as const;

const redacted = '[redacted]';
const cut = '[cut]';

/** Parts of names whose values are sensitive wherever they stand, in lower case without separators. */
const sensitiveParts = [
  ...['password', 'passwd', 'passphrase', 'secret', 'token', 'apikey', 'authorization'],
  ...['credential', 'privatekey', 'cookie', 'cardnumber', 'creditcard', 'accountnumber'],
  ...['socialsecurity', 'birthdate', 'dateofbirth', 'passport', 'taxid', 'email', 'phone'],
];
const sensitiveNames = new Set([
  ...['pin', 'cvv', 'cvc', 'cvv2', 'iban', 'bic', 'ssn', 'dob', 'otp', 'pwd', 'pan', 'auth'],
  ...['firstname', 'lastname', 'fullname', 'street', 'address', 'zipcode', 'postcode'],
]);

interface Redaction {
  readonly own: ReadonlySet<string>;
  left: number;
}

/**
 * What may be kept of arguments: values of fields that are sensitive by name (ours, and the tenant's
 * own list), and what looks like personal data or a secret inside any text, are replaced. A best
 * effort by form, and so kept encrypted and erasable all the same.
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
    // Lists count as a level, whatever they are in.
    items.push(redactValue(item, [...path, ''], redaction));
  }
  return items;
}

function isList(value: JsonObject | readonly JsonValue[]): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** What may be kept of a text. Redacted before it is cut: half a secret has no form any more. */
export function keptText(text: string): string {
  const plain = redactText(text.slice(0, limits.readCharacters));
  const isRead = text.length <= limits.readCharacters;
  if (isRead && plain.length <= limits.textCharacters) return recordableText(plain);
  // What stands at the end of what was read may be the half of something.
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

/** Names are written in many ways: `card_number`, `cardNumber`, `Card-Number`. */
function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

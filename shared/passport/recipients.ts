import { domainToASCII, domainToUnicode } from 'node:url';
import { isJsonObject, type JsonValue } from '../base/json.ts';

/** Arguments that name recipients. */
const recipientNames = new Set(['recipient', 'recipients', 'to', 'cc', 'bcc', 'email']);
/** Members of a recipient object that contain its address. */
const addressNames = new Set(['email', 'address', 'emailaddress']);

/**
 * The first recipient in `args`, at any depth, that is not provably inside the allowed domains;
 * undefined if there is none. `example.com` covers only itself, `*.example.com` only its
 * sub-domains. Names are compared as lower-case A-labels. Ambiguous forms (quoted or routed local
 * parts, comments, encoded words, address literals, numbers) count as outside.
 */
export function externalRecipient(args: JsonValue, allowed: readonly string[]): string | undefined {
  const domains = allowed.map(readAllowed).filter((domain) => domain !== undefined);
  for (const value of valuesNamed(args, recipientNames)) {
    const outside = externalAddress(value, domains);
    if (outside !== undefined) return outside;
  }
  return undefined;
}

/** Values of members with one of these names, ignoring case, at any depth. */
export function valuesNamed(root: JsonValue, names: ReadonlySet<string>): readonly JsonValue[] {
  const found: JsonValue[] = [];
  const open: JsonValue[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (Array.isArray(value)) for (const item of value) open.push(item);
    if (!isJsonObject(value)) continue;
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue;
      if (names.has(name.toLowerCase())) found.push(member);
      open.push(member);
    }
  }
  return found;
}

function externalAddress(value: JsonValue, domains: readonly string[]): string | undefined {
  if (value === null || value === '') return undefined;
  if (typeof value === 'string') return externalAddressInText(value, domains);
  if (Array.isArray(value)) return firstOf(value, (item) => externalAddress(item, domains));
  if (!isJsonObject(value)) return String(value);
  const addresses = Object.entries(value)
    .filter(([name]) => addressNames.has(name.toLowerCase()))
    .map(([, address]) => address);
  if (addresses.length === 0) return 'an object without an address';
  return firstOf(addresses, (address) => externalAddress(address ?? null, domains));
}

function firstOf<Item>(
  items: readonly Item[],
  judge: (item: Item) => string | undefined,
): string | undefined {
  for (const item of items) {
    const outside = judge(item);
    if (outside !== undefined) return outside;
  }
  return undefined;
}

/**
 * Returns the first external address in text with one address, or with several that are separated
 * by commas or semicolons.
 */
function externalAddressInText(text: string, domains: readonly string[]): string | undefined {
  return firstOf(text.split(/[,;]/), (part) => {
    const domain = domainOf(part);
    return domain !== undefined && domains.some((one) => isWithin(domain, one)) ? undefined : part;
  });
}

// RFC 5322 addr-spec in dot-atom form, without characters that have a second meaning in routes (RFC
// 5321 appendix C), encoded words (RFC 2047) and legacy gateways.
const addressForm = /^([A-Za-z0-9_'+~#=/-]+(?:\.[A-Za-z0-9_'+~#=/-]+)*)@([^@]+)$/;
// A display name without characters of the address syntax, because parsers disagree about names
// that contain them.
const namedForm = /^([^<>@,;:"\\()[\]\p{Cc}=]*)<([^<>]+)>$/u;
const quotedNameForm = /^"([^<>@,;:"\\()[\]\p{Cc}=]*)" *<([^<>]+)>$/u;

/** The domain of one address as lower-case A-labels; undefined if the address is ambiguous. */
function domainOf(text: string): string | undefined {
  const trimmed = text.replace(/^ +| +$/g, '');
  const named = quotedNameForm.exec(trimmed) ?? namedForm.exec(trimmed);
  const domain = addressForm.exec(named?.[2] ?? trimmed)?.[2];
  return domain === undefined ? undefined : readDomain(domain);
}

const labelsForm = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$/;

function readDomain(text: string): string | undefined {
  const lower = (text.endsWith('.') ? text.slice(0, -1) : text).toLowerCase();
  if (/^[a-z0-9.-]+$/.test(lower)) return labelsForm.test(lower) ? lower : undefined;
  // domainToASCII stops at a slash and similar characters, and maps look-alike dots. Only a name
  // that it returns unchanged is accepted.
  if (!/^[\p{L}\p{M}\p{N}.-]+$/u.test(lower)) return undefined;
  const ascii = domainToASCII(lower);
  return domainToUnicode(ascii) === lower && labelsForm.test(ascii) ? ascii : undefined;
}

/** Returns an allowed domain in the form in which domains are compared; keeps a leading `*.`. */
function readAllowed(text: string): string | undefined {
  if (!text.startsWith('*.')) return readDomain(text);
  const domain = readDomain(text.slice(2));
  return domain === undefined ? undefined : `*.${domain}`;
}

function isWithin(domain: string, allowed: string): boolean {
  return allowed.startsWith('*.') ? domain.endsWith(allowed.slice(1)) : domain === allowed;
}

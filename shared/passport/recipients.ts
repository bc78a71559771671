import { domainToASCII, domainToUnicode } from 'node:url';
import { isJsonObject, type JsonValue } from '../base/json.ts';

/** Arguments that name whom something is sent to (design 15). */
const recipientNames = new Set(['recipient', 'recipients', 'to', 'cc', 'bcc', 'email']);
/** Members of a recipient given as an object that hold its address. */
const addressNames = new Set(['email', 'address', 'emailaddress']);

/**
 * The first recipient in `args`, at any depth, that is not provably inside the allowed domains,
 * or undefined when every one is. A domain stands for itself alone, `*.example.com` for its
 * sub-domains. Names are compared as lower-case A-labels. What cannot be read for certain
 * (quoted or routed local parts, comments, encoded words, address literals, numbers) is outside.
 */
export function externalRecipient(args: JsonValue, allowed: readonly string[]): string | undefined {
  const domains = allowed.map(readAllowed).filter((domain) => domain !== undefined);
  for (const value of valuesNamed(args, recipientNames)) {
    const outside = outsider(value, domains);
    if (outside !== undefined) return outside;
  }
  return undefined;
}

/** Values of members with one of these names (whatever their case), at any depth. */
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

function outsider(value: JsonValue, domains: readonly string[]): string | undefined {
  if (value === null || value === '') return undefined;
  if (typeof value === 'string') return outsiderInText(value, domains);
  if (Array.isArray(value)) return firstOf(value, (item) => outsider(item, domains));
  if (!isJsonObject(value)) return String(value);
  const addresses = Object.entries(value)
    .filter(([name]) => addressNames.has(name.toLowerCase()))
    .map(([, address]) => address);
  if (addresses.length === 0) return 'an object without an address';
  return firstOf(addresses, (address) => outsider(address ?? null, domains));
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

/** One address, or several parted by commas or semicolons. */
function outsiderInText(text: string, domains: readonly string[]): string | undefined {
  return firstOf(text.split(/[,;]/), (part) => {
    const domain = domainOf(part);
    return domain !== undefined && domains.some((one) => isWithin(domain, one)) ? undefined : part;
  });
}

// RFC 5322 addr-spec, dot-atom forms only, and without the characters that routes (RFC 5321
// appendix C), encoded words (RFC 2047) and old gateways give a second meaning to.
const addressForm = /^([A-Za-z0-9_'+~#=/-]+(?:\.[A-Za-z0-9_'+~#=/-]+)*)@([^@]+)$/;
// A display name that holds nothing an address is made of; parsers disagree about anything else.
const namedForm = /^([^<>@,;:"\\()[\]\p{Cc}=]*)<([^<>]+)>$/u;
const quotedNameForm = /^"([^<>@,;:"\\()[\]\p{Cc}=]*)" *<([^<>]+)>$/u;

/** The domain of one address as lower-case A-labels, or undefined when it cannot be read. */
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
  // domainToASCII reads only up to a slash or the like, and maps look-alike dots; only a name that
  // it gives back unchanged is taken.
  if (!/^[\p{L}\p{M}\p{N}.-]+$/u.test(lower)) return undefined;
  const ascii = domainToASCII(lower);
  return domainToUnicode(ascii) === lower && labelsForm.test(ascii) ? ascii : undefined;
}

/** An allowed domain in the form addresses are compared in; `*.` kept in front. */
function readAllowed(text: string): string | undefined {
  if (!text.startsWith('*.')) return readDomain(text);
  const domain = readDomain(text.slice(2));
  return domain === undefined ? undefined : `*.${domain}`;
}

function isWithin(domain: string, allowed: string): boolean {
  return allowed.startsWith('*.') ? domain.endsWith(allowed.slice(1)) : domain === allowed;
}

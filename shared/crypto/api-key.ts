import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const apiKeyPrefix = 'apk_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 30;
const checksumLength = 6;
const form = /^apk_[0-9A-Za-z]{36}$/;

/** A new API key: `apk_`, 30 random base62 characters (178 bits), and a checksum of 6. */
export function generateApiKey(): string {
  const random = Array.from({ length: randomLength }, () => alphabet[randomInt(alphabet.length)]);
  return formatApiKey(random.join(''));
}

/** Formats the API key for 30 base62 characters. */
export function formatApiKey(random: string): string {
  const body = apiKeyPrefix + random;
  return body + checksum(body);
}

/**
 * True if a text has the form of an API key and a valid checksum. Use it before a look-up, because
 * it is cheap.
 */
export function isApiKey(text: string): boolean {
  return (
    form.test(text) && checksum(text.slice(0, -checksumLength)) === text.slice(-checksumLength)
  );
}

/** CRC-32 of the preceding characters, in base62, zero-padded to six characters. */
function checksum(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let digit = 0; digit < checksumLength; digit++) {
    text = alphabet.charAt(rest % alphabet.length) + text;
    rest = Math.floor(rest / alphabet.length);
  }
  return text;
}

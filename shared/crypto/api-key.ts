import { randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const apiKeyPrefix = 'apk_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 30;
const checksumLength = 6;
const form = /^apk_[0-9A-Za-z]{36}$/;

/**
 * Creates an API key: `apk_`, 30 random base62 characters (178 bits), and 6 checksum characters.
 */
export function generateApiKey(): string {
  const random = Array.from({ length: randomLength }, () => alphabet[randomInt(alphabet.length)]);
  return formatApiKey(random.join(''));
}

/** Returns the API key for the given 30 random characters: adds the prefix and the checksum. */
export function formatApiKey(random: string): string {
  const body = apiKeyPrefix + random;
  return body + checksum(body);
}

/**
 * True if a text has the form of an API key and a valid checksum. Use this check before a look-up,
 * because the check is cheap.
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

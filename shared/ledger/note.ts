import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import type { PublicJwk, SigningKey } from '../crypto/signing-key.ts';

// Signed notes (c2sp.org/signed-note): a text, a blank line, and signature lines.

/**
 * The supported signature types: Ed25519 over the text, and a witness's timestamped cosignature.
 */
const algorithms = { ed25519: 0x01, cosignature: 0x04 } as const;
type NoteAlgorithm = keyof typeof algorithms;

/** The key of a possible signer, as in a verifier key (`vkey`). */
export interface NoteVerifier {
  readonly name: string;
  readonly algorithm: NoteAlgorithm;
  /** Four bytes that distinguish keys of the same name. */
  readonly keyHash: Buffer;
  readonly publicKey: KeyObject;
}

interface NoteSignature {
  readonly name: string;
  readonly keyHash: Buffer;
  readonly signature: Buffer;
  /** The whole line, without its line end. */
  readonly line: string;
}

interface ParsedNote {
  /** The signed text; ends in a line feed. */
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** A valid signature. */
interface VerifiedSignature {
  readonly verifier: NoteVerifier;
  readonly line: string;
  /** The time at which a witness signed, in seconds since the epoch. */
  readonly timeSeconds?: number | undefined;
}

const noteLengthMax = 1_000_000;
const signaturesMax = 100;
const nameForm = /^[^\s+\p{Cc}]{1,255}$/u;
const lineForm = /^— (\S+) ([A-Za-z0-9+/]+={0,2})$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a note contains none except line feeds
const controlCharacters = /[\x00-\x09\x0b-\x1f\x7f]/;

/** True if a text can be a key name, and therefore the origin of a checkpoint. */
export function isNoteName(text: string): boolean {
  return nameForm.test(text);
}

/**
 * Returns the verifier key `<name>+<key hash>+<type and key>` of a key that signs notes under this
 * name.
 */
export function vkeyOf(name: string, jwk: PublicJwk, algorithm: NoteAlgorithm = 'ed25519'): string {
  const bytes = Buffer.concat([Buffer.from([algorithms[algorithm]]), rawKey(jwk)]);
  return `${name}+${keyHashOf(name, bytes).toString('hex')}+${bytes.toString('base64')}`;
}

/** Parses a verifier key; throws a TypeError that describes the problem. */
export function parseVkey(vkey: string): NoteVerifier {
  const [name = '', hashText = '', ...rest] = vkey.split('+');
  // The base64 part may contain plus signs.
  const bytes = strictBase64(rest.join('+'));
  if (!nameForm.test(name) || !/^[0-9a-f]{8}$/.test(hashText) || bytes?.length !== 33) {
    throw new TypeError('a verifier key must be <name>+<8 hex digits>+<base64 of type and key>');
  }
  const algorithm = algorithmOf(bytes[0]);
  if (algorithm === undefined) throw new TypeError('the verifier key has an unsupported type');
  const keyHash = keyHashOf(name, bytes);
  if (keyHash.toString('hex') !== hashText) {
    throw new TypeError('the verifier key’s hash does not match its name and key');
  }
  const x = bytes.subarray(1).toString('base64url');
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  return { name, algorithm, keyHash, publicKey };
}

/** Signs a text, which must end in a line feed, under a name; returns the whole note. */
export function signNote(text: string, name: string, key: SigningKey): string {
  if (!isNoteText(text))
    throw new TypeError(
      'the text cannot be signed as a note: it must end in a line feed and have no other control characters',
    );
  if (key.alg !== 'EdDSA' || !nameForm.test(name))
    throw new TypeError('notes require an Ed25519 key and a valid key name');
  const signature = sign(null, Buffer.from(text), key.privateKey);
  return `${text}\n${signatureLine(vkeyOf(name, key.publicJwk), signature)}\n`;
}

/** A witness's cosignature of a note's text, as one line (c2sp.org/tlog-cosignature, version 1). */
export function cosign(
  text: string,
  { name, key, timeSeconds }: { name: string; key: SigningKey; timeSeconds: number },
): string {
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(timeSeconds));
  const signature = sign(null, Buffer.from(cosignedText(text, timeSeconds)), key.privateKey);
  const vkey = vkeyOf(name, key.publicJwk, 'cosignature');
  return signatureLine(vkey, Buffer.concat([time, signature]));
}

/** Parses a note without verification; undefined if the text is not a note. */
export function parseNote(note: string): ParsedNote | undefined {
  if (note.length > noteLengthMax) return undefined;
  const end = note.lastIndexOf('\n\n');
  const text = note.slice(0, end + 1);
  const block = note.slice(end + 2);
  if (end < 0 || !block.endsWith('\n') || !isNoteText(text)) return undefined;
  const lines = block.slice(0, -1).split('\n');
  if (lines.length > signaturesMax) return undefined;
  const signatures = lines.map(parseSignature).filter((one) => one !== undefined);
  return signatures.length === lines.length ? { text, signatures } : undefined;
}

/**
 * Returns the text of a note, and the valid signatures that the `verifiers` made. Undefined if
 * there are no such signatures, or if a signature with the name and key hash of a verifier is
 * invalid.
 */
export function openNote(
  note: string,
  verifiers: readonly NoteVerifier[],
): { readonly text: string; readonly verified: readonly VerifiedSignature[] } | undefined {
  const parsed = parseNote(note);
  if (parsed === undefined) return undefined;
  const { text, signatures } = parsed;
  const verified: VerifiedSignature[] = [];
  for (const signature of signatures) {
    const verifier = verifiers.find((known) => isOf(signature, known));
    if (verifier === undefined) continue;
    const result = checkSignature(text, signature, verifier);
    if (result === undefined) return undefined;
    verified.push(result);
  }
  return verified.length === 0 ? undefined : { text, verified };
}

function checkSignature(
  text: string,
  { signature, line }: NoteSignature,
  verifier: NoteVerifier,
): VerifiedSignature | undefined {
  if (verifier.algorithm === 'ed25519') {
    const holds = verify(null, Buffer.from(text), verifier.publicKey, signature);
    return holds ? { verifier, line } : undefined;
  }
  if (signature.length !== 72) return undefined;
  const timeSeconds = Number(signature.readBigUInt64BE(0));
  const message = Buffer.from(cosignedText(text, timeSeconds));
  const holds = verify(null, message, verifier.publicKey, signature.subarray(8));
  return holds ? { verifier, line, timeSeconds } : undefined;
}

function isOf({ name, keyHash }: NoteSignature, verifier: NoteVerifier): boolean {
  return name === verifier.name && keyHash.equals(verifier.keyHash);
}

function parseSignature(line: string): NoteSignature | undefined {
  const [, name = '', base64 = ''] = lineForm.exec(line) ?? [];
  const bytes = strictBase64(base64);
  if (!nameForm.test(name) || bytes === undefined || bytes.length < 5) return undefined;
  return { name, keyHash: bytes.subarray(0, 4), signature: bytes.subarray(4), line };
}

function signatureLine(vkey: string, signature: Buffer): string {
  const { name, keyHash } = parseVkey(vkey);
  return `— ${name} ${Buffer.concat([keyHash, signature]).toString('base64')}`;
}

function cosignedText(text: string, timeSeconds: number): string {
  return `cosignature/v1\ntime ${timeSeconds}\n${text}`;
}

function keyHashOf(name: string, typeAndKey: Buffer): Buffer {
  const bytes = Buffer.concat([Buffer.from(`${name}\n`), typeAndKey]);
  return hash('sha256', bytes, 'buffer').subarray(0, 4);
}

function algorithmOf(type: number | undefined): NoteAlgorithm | undefined {
  if (type === algorithms.ed25519) return 'ed25519';
  return type === algorithms.cosignature ? 'cosignature' : undefined;
}

function isNoteText(text: string): boolean {
  return text.endsWith('\n') && text.isWellFormed() && !controlCharacters.test(text);
}

function rawKey(jwk: PublicJwk): Buffer {
  if (jwk.crv !== 'Ed25519') throw new TypeError('notes are signed with Ed25519');
  return Buffer.from(jwk.x, 'base64url');
}

/**
 * Parses strict base64: complete padding and no trailing characters, so that each value has only
 * one text.
 */
function strictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

import { generateKeyPairSync, randomBytes, sign, verify } from 'node:crypto';

const signatures = 3_000;

/** Returns the number of Ed25519 signatures that one core verifies in a second. */
export function verificationsPerSecond(): number {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const signed = Array.from({ length: signatures }, () => {
    const text = randomBytes(600);
    return { text, signature: sign(null, text, privateKey) };
  });
  const startedAt = performance.now();
  for (const { text, signature } of signed) {
    if (!verify(null, text, publicKey, signature)) throw new Error('a good signature was refused');
  }
  return signatures / ((performance.now() - startedAt) / 1000);
}

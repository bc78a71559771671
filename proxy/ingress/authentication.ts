import { createHash, timingSafeEqual } from 'node:crypto';

const digest = (text: string) => createHash('sha256').update(text).digest();

/**
 * Whether a `Proxy-Authorization` value proves the token: as `Bearer <token>`, or by Basic as the
 * password, or as the user name without a password (`http://token@proxy`).
 */
export function tokenCheck(token: string): (authorization: string | undefined) => boolean {
  const expected = digest(token);
  const isToken = (candidate: string) => timingSafeEqual(digest(candidate), expected);
  return (authorization) => {
    const parts = /^(bearer|basic) +([^\s]+)$/i.exec(authorization ?? '');
    const credentials = parts?.[2] ?? '';
    if (parts?.[1]?.toLowerCase() === 'bearer') return isToken(credentials);
    const pair = Buffer.from(credentials, 'base64').toString();
    const colon = pair.indexOf(':');
    const [user, password] = colon < 0 ? [pair, ''] : [pair.slice(0, colon), pair.slice(colon + 1)];
    return isToken(password === '' ? user : password);
  };
}

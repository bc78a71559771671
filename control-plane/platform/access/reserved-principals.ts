import { foldPrincipal } from '../../../shared/base/principal.ts';

const reserved = ['sidecar:', 'service-account:'];

/**
 * Characters that look like a colon and that NFKC does not convert to one (Unicode confusables).
 */
const colonLike =
  /[\u02d0\u02f8\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789]/gu;

/**
 * Returns whether only Sallyport may assign this name, or the name looks like such a name. Compares
 * names in folded form. A colon with a letter outside ASCII before it makes a lookalike.
 */
export function isReservedPrincipal(principal: string): boolean {
  const folded = foldPrincipal(principal).replaceAll(colonLike, ':').replaceAll(' ', '');
  if (reserved.some((prefix) => folded.startsWith(prefix))) return true;
  const [prefix = '', ...rest] = folded.split(':');
  return rest.length > 0 && /[^\x20-\x7e]/.test(prefix);
}

export function serviceAccountPrincipal(id: string): string {
  return `service-account:${id}`;
}

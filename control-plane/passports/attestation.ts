import { foldPrincipal } from '../../shared/base/principal.ts';
import type { Caller } from '../platform/access/caller.ts';

/**
 * Whose word it is that a passport's user is there as it is issued: the user's own, by a key of
 * theirs, or that of somebody who may attest it. Undefined for all others, an agent's key first of
 * all: otherwise an agent could authenticate its user again by itself.
 */
export function attestationOf(
  { principal, role, agentId, permissions }: Caller,
  userId: string,
): string | undefined {
  if (role === 'agent' || agentId !== undefined) return undefined;
  const isTheUser = foldPrincipal(principal) === foldPrincipal(userId);
  return isTheUser || permissions.has('reauth.attest') ? principal : undefined;
}

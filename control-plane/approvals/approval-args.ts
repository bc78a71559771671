import type { JsonObject } from '../../shared/json.ts';
import type { SealedPlace, Services } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';

type Which = 'proposed' | 'effective';

/** Where arguments of an approval are sealed. */
export function argumentsPlace(
  { tenantId, id }: Pick<Approval, 'tenantId' | 'id'>,
  which: Which,
): SealedPlace {
  return { tenantId, purpose: 'approval_args', id: `${id}:${which}`, version: 1 };
}

/** Encrypts what a human must read to decide, or may be performed after `modify`. */
export function sealArgs(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id'>,
  { which, args }: { readonly which: Which; readonly args: JsonObject },
): string {
  return vault.seal(JSON.stringify(args), argumentsPlace(approval, which));
}

/** Decrypts stored arguments; undefined when there are none. */
export function openArgs(
  { vault }: Pick<Services, 'vault'>,
  approval: Pick<Approval, 'tenantId' | 'id' | 'proposedArgs' | 'effectiveArgs'>,
  which: Which,
): JsonObject | undefined {
  const sealed = which === 'proposed' ? approval.proposedArgs : approval.effectiveArgs;
  if (sealed === null) return undefined;
  return JSON.parse(
    vault.open(sealed, argumentsPlace(approval, which)).toString('utf8'),
  ) as JsonObject;
}

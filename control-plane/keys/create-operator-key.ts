import { SettingsError } from '../../shared/base/settings.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { isReservedPrincipal } from '../platform/access/reserved-principals.ts';
import { insertKey } from './create-key.ts';

/** The roles of persons. Machines get their keys over the API. */
const roles = ['owner', 'admin', 'developer', 'approver', 'auditor'] as const;

interface OperatorKey {
  readonly tenantId: string;
  readonly role: string;
  readonly principal: string;
}

/**
 * Makes a key that no key of the tenant led to. Keys that one person made count as that person, so
 * that this is how a second person who decides comes to a tenant.
 */
export async function createOperatorKey(
  services: Services,
  { tenantId, role: wanted, principal }: OperatorKey,
): Promise<string> {
  const role = roles.find((known) => known === wanted);
  if (role === undefined) {
    throw new SettingsError(`Role ${wanted}: use one of ${roles.join(', ')}.`);
  }
  if (principal.trim() === '' || principal.length > 100 || isReservedPrincipal(principal)) {
    throw new SettingsError(
      `Principal ${JSON.stringify(principal.slice(0, 100))}: use the name of a person, of at most 100 characters.`,
    );
  }
  if ((await services.db.tenant.findUnique({ where: { id: tenantId } })) === null) {
    throw new SettingsError(`There is no tenant ${tenantId}.`);
  }
  const { result } = await commitChange(services, tenantId, (tx, notes) =>
    insertKey(
      tx,
      { ...services, notes },
      {
        tenantId,
        by: undefined,
        wantedKey: {
          ...{ name: principal, role, scope: 'tenant', principal },
          ...{ agentId: undefined, expiresAt: undefined },
        },
      },
    ),
  );
  return result.key;
}

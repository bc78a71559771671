import { newId } from '../../shared/base/ids.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { boundedExpiry, insertKey } from '../keys/create-key.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { serviceAccountPrincipal } from '../platform/access/reserved-principals.ts';
import { permissionsOf } from '../platform/access/roles.ts';
import { type ClaimedRows, claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent, ServiceAccount } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { assertEnabled, loadAgent, lockEnabledAgent } from '../records/load-agent.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard'>;

export interface ListedServiceAccount {
  readonly account: Verified<ServiceAccount>;
  /** Whether the account has a valid key. */
  readonly active: boolean;
}

interface MintedServiceAccount {
  readonly account: Verified<ServiceAccount>;
  readonly key: string;
  readonly keyId: string;
  readonly expiresAt: Date | undefined;
}

/**
 * Creates a service account: an API key of role `agent` that is bound to the agent. If all keys of
 * an existing account are revoked or expired, that account gets a new key.
 */
export async function mintServiceAccount(
  services: Services,
  caller: Caller,
  wanted: {
    readonly agentId: number;
    readonly name: string;
    readonly expiresAt?: string | undefined;
  },
): Promise<MintedServiceAccount> {
  const { tenantId, principal } = caller;
  const { agentId, name } = wanted;
  assertOwnAgent(caller, String(agentId));
  assertHoldsRole(caller);
  assertEnabled(await loadAgent(services, tenantId, agentId));
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `service accounts of ${agentId}`);
    await lockEnabledAgent(tx, tenantId, String(agentId));
    const expiresAt = await boundedExpiry(tx, services, { caller, asked: wanted.expiresAt });
    const account = await accountOf(services, notes, { tenantId, agentId, name });
    const { key, record } = await insertKey(services, notes, {
      tenantId,
      by: caller,
      wantedKey: {
        name,
        role: 'agent',
        scope: 'tenant',
        principal: serviceAccountPrincipal(account.id),
        agentId,
        expiresAt,
      },
    });
    await notes.event({
      type: 'agent.service_account_created',
      chainId: agentChain(String(agentId)),
      agentId: String(agentId),
      data: { by: principal, key_id: record.id, name, service_account_id: account.id },
    });
    return { account, key, keyId: record.id, expiresAt };
  });
  return result;
}

/** Throws if the new key would have a permission that the caller's key lacks. */
function assertHoldsRole({ permissions }: Caller): void {
  const missing = [...permissionsOf('agent', true)].find((one) => !permissions.has(one));
  if (missing === undefined) return;
  throw new GatewayError('key.role_exceeds_own', {
    message: `A service account has the permission ${missing}, which your key lacks.`,
  });
}

/**
 * Returns the account of this name. Creates the account if it does not exist; throws if it has a
 * valid key.
 */
async function accountOf(
  { clock }: Pick<Services, 'clock'>,
  notes: ChangeNotes,
  { tenantId, agentId, name }: Pick<ServiceAccount, 'tenantId' | 'agentId' | 'name'>,
): Promise<Verified<ServiceAccount>> {
  const nowMs = clock.now();
  const accounts = notes.rows('service_account');
  const known = await accounts.findUnique({
    where: { tenantId_agentId_name: { tenantId, agentId, name } },
  });
  if (known === null) {
    const createdAt = new Date(nowMs);
    return accounts.create({ id: newId('sa', nowMs), tenantId, agentId, name, createdAt });
  }
  const keys = notes.rows('api_key');
  if ((await usable(keys, tenantId, { accounts: [known], nowMs })).has(known.id)) {
    throw new GatewayError('service_account.exists', {
      message: `The agent has a service account ${name}: revoke its key first (DELETE /v1/keys), or choose another name.`,
    });
  }
  return known;
}

export async function listServiceAccounts(
  services: Deps,
  { tenantId, id: agentId }: Verified<Agent>,
): Promise<readonly ListedServiceAccount[]> {
  const accounts = await signedRows(services, 'service_account').findValid({
    where: { tenantId, agentId },
    orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
  });
  const keys = claimedRows(services.db, 'api_key');
  const active = await usable(keys, tenantId, { accounts, nowMs: services.clock.now() });
  return accounts.map((account) => ({ account, active: active.has(account.id) }));
}

/** Returns the ids of the accounts that have a valid key. */
async function usable(
  apiKeys: ClaimedRows<'api_key'>,
  tenantId: string,
  {
    accounts,
    nowMs,
  }: { readonly accounts: readonly Verified<ServiceAccount>[]; readonly nowMs: number },
): Promise<ReadonlySet<string>> {
  const keys = await apiKeys.findClaims(['principal'], {
    where: {
      tenantId,
      principal: { in: accounts.map(({ id }) => serviceAccountPrincipal(id)) },
      revokedAt: null,
      OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
    },
  });
  const principals = new Set(keys.map(({ principal }) => principal));
  const valid = accounts.filter(({ id }) => principals.has(serviceAccountPrincipal(id)));
  return new Set(valid.map(({ id }) => id));
}

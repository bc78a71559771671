import { openStates } from '../approvals/open-states.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { privacyChain } from '../ledger/privacy/erased.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { putUser } from '../users/put-user.ts';

/** Maximum number of salts per transaction, and of transactions per request. */
const batchMax = 5_000;
const batchesMax = 40;

interface Erasure {
  readonly user_id?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly reason?: string | undefined;
}

/**
 * Erases the salts and stored arguments of all calls for a user or by an agent. If one request
 * cannot erase all of them, it reports `complete: false`.
 */
export async function erasePersonalData(
  services: Services,
  caller: Caller,
  erasure: Erasure,
): Promise<{
  readonly events: number;
  readonly approvals: number;
  readonly complete: boolean;
}> {
  const approvals = await eraseShown(services, caller, erasure);
  if (erasure.user_id !== undefined) await eraseAddress(services, caller, erasure.user_id);
  let events = 0;
  for (let batch = 0; batch < batchesMax; batch += 1) {
    const erased = await eraseBatch(services, caller, erasure);
    events += erased;
    if (erased < batchMax) return { events, approvals, complete: true };
  }
  return { events, approvals, complete: false };
}

/**
 * Identifies the subject of an erasure by a keyed hash, because the ledger must not contain the
 * name.
 */
function aboutOf({ vault }: Services, tenantId: string, { user_id, agent_id, reason }: Erasure) {
  const about = user_id === undefined ? `agent ${agent_id}` : `user ${user_id}`;
  return {
    about: user_id === undefined ? 'agent' : 'user',
    about_hash: `hmac-sha256:${vault.mac('privacy_erasure', `${tenantId} ${about}`)}`,
    reason,
  };
}

async function eraseBatch(
  services: Services,
  { tenantId, principal }: Caller,
  erasure: Erasure,
): Promise<number> {
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const count = await eraseSalts(tx, tenantId, { erasure, now });
    if (count === 0) return 0;
    await notes.event({
      type: 'privacy.erased',
      chainId: privacyChain,
      data: { by: principal, events: count, ...aboutOf(services, tenantId, erasure) },
    });
    return count;
  });
  return result;
}

async function eraseSalts(
  tx: Transaction,
  tenantId: string,
  { erasure, now }: { readonly erasure: Erasure; readonly now: Date },
): Promise<number> {
  const { user_id, agent_id } = erasure;
  if (user_id !== undefined) {
    return tx.$executeRaw`
      update evidence_salt set sealed = '', arguments = null, erased_at = ${now}
       where tenant_id = ${tenantId} and event_id in
         (select event_id from evidence_salt
           where tenant_id = ${tenantId} and user_id = ${user_id} and erased_at is null
           limit ${batchMax} for update skip locked)`;
  }
  return tx.$executeRaw`
    update evidence_salt set sealed = '', arguments = null, erased_at = ${now}
     where tenant_id = ${tenantId} and event_id in
       (select salt.event_id from evidence_row as row
          join evidence_salt as salt
            on salt.tenant_id = row.tenant_id and salt.event_id = row.event_id
         where row.tenant_id = ${tenantId} and row.agent_id = ${agent_id ?? ''}
           and salt.erased_at is null
         limit ${batchMax})`;
}

/** Erases the data that deciders were shown in approval requests that are closed now. */
async function eraseShown(
  services: Services,
  { tenantId, principal }: Caller,
  erasure: Erasure,
): Promise<number> {
  const { user_id: userId, agent_id: agentId } = erasure;
  const now = new Date(services.clock.now());
  const isDone = [{ grantExpiresAt: null }, { grantExpiresAt: { lt: now } }];
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const count = await notes.rows('approval').updateUnsigned(
      {
        tenantId,
        ...(userId === undefined ? { agentId: agentId ?? '' } : { userId }),
        status: { notIn: [...openStates] },
        proposedArgs: { not: null },
        OR: isDone,
      },
      { proposedArgs: null, effectiveArgs: null },
    );
    if (count === 0) return 0;
    await notes.event({
      type: 'privacy.erased',
      chainId: privacyChain,
      data: { approvals: count, by: principal, ...aboutOf(services, tenantId, erasure) },
    });
    return count;
  });
  return result;
}

/** Erases the user's address. Keeps the role, because decisions depend on it. */
async function eraseAddress(services: Services, caller: Caller, id: string): Promise<void> {
  const where = { tenantId_id: { tenantId: caller.tenantId, id } };
  // Changing the row signs it again, so its role must be verified first.
  const user = await signedRows(services, 'directory_user').findUnique({ where });
  if (user === null || user.email === null) return;
  await putUser(services, caller, { id, fields: { role: user.role } });
}

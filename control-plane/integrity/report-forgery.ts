import { derivedId } from '../evidence/incident.ts';
import type { Forgery, Services, Vault } from '../services.ts';

/** Chain of what was found in the database and is not ours. */
export const integrityChain = 'integrity:rows';

type Deps = Pick<Services, 'pool' | 'clock' | 'log'> & { readonly vault: Pick<Vault, 'mac'> };

const reportedMax = 10_000;

/**
 * Seals that a row is not ours, once for what was found, however often and by whichever process it
 * is found again. Nobody waits for it: it is met inside transactions, which may hold the only
 * connection, and the row is refused either way. What cannot be written now is written the next time.
 */
export function reportForgery(deps: Deps, forgery: Forgery, reported: Set<string>): void {
  const { pool, clock, log, vault } = deps;
  const { tenantId, table, key, found } = forgery;
  // Keyed: rows hold addresses and roles that could be guessed from a plain hash.
  const fingerprint = vault.mac('forged_row', found);
  const id = derivedId(`forged ${tenantId} ${table} ${key} ${fingerprint}`);
  if (reported.has(id)) return;
  if (reported.size >= reportedMax) reported.clear();
  reported.add(id);
  log.error(
    { tenantId, table, id: key },
    'a row that gives authority was not written by us: refused',
  );
  const event = {
    chain_id: integrityChain,
    data: { fingerprint, row_id: key, table },
    id,
    occurred_at: new Date(clock.now()).toISOString(),
    reason_code: 'integrity.forged_row',
    source: 'control-plane',
    type: 'integrity.forged_row',
  };
  pool.query(insertOnce, [tenantId, id, JSON.stringify(event)]).catch((err: unknown) => {
    reported.delete(id);
    log.error({ err, table, id: key }, 'a forged row could not be recorded');
  });
}

const insertOnce = `
insert into event_outbox (tenant_id, event_id, event)
select $1, $2, $3
where not exists (select 1 from evidence_row where tenant_id = $1 and event_id = $2)
on conflict do nothing`;

import type { Pool } from 'pg';
import type { Clock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { Log } from '../../../shared/base/log.ts';
import { messageText, notified, payloadPlace } from '../outbound/enqueue.ts';
import type { Vault } from '../vault/vault.ts';
import { derivedId, integrityChain } from './incident-ids.ts';
import { outboxMac } from './outbox-mac.ts';

/** A row that failed its integrity check. */
export interface Forgery {
  readonly tenantId: string;
  readonly table: string;
  readonly key: string;
  /** The row's content. */
  readonly found: string;
}

interface Deps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly log: Log;
  readonly vault: Pick<Vault, 'mac' | 'seal'>;
}

const reportedMax = 10_000;

/**
 * Seals an event that a row failed its integrity check, only once even if several processes find it
 * repeatedly. Does not wait, because the caller's transaction may hold the only connection, and the
 * row is refused in any case. If the write fails, the next finding retries it.
 */
export function reportForgery(deps: Deps, forgery: Forgery, reported: Set<string>): void {
  const { pool, clock, log, vault } = deps;
  const { tenantId, table, key, found } = forgery;
  // Uses a keyed hash, because addresses and roles in rows could be guessed from a plain hash.
  const fingerprint = vault.mac('forged_row', found);
  const id = derivedId(`forged ${tenantId} ${table} ${key} ${fingerprint}`);
  if (reported.has(id)) return;
  if (reported.size >= reportedMax) reported.clear();
  reported.add(id);
  log.error(
    { tenantId, table, id: key },
    'a row that gives authority failed its integrity check and was refused',
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
  const message = messageTo(deps, tenantId, event);
  const text = JSON.stringify(event);
  const mac = outboxMac(vault, { tenantId, eventId: id, event: text });
  pool.query(insertOnce, [tenantId, id, text, ...message, mac]).catch((err: unknown) => {
    reported.delete(id);
    log.error({ err, table, id: key }, 'could not record a forged row');
  });
}

type ForgeryMessage = Readonly<Record<'type', string>> & {
  readonly data: Readonly<Record<string, string>>;
};

/** Returns the notification, encrypted for each channel that receives all notifications. */
function messageTo(
  { clock, vault }: Deps,
  tenantId: string,
  { type, data }: ForgeryMessage,
): readonly [string, Date, readonly string[], readonly string[], readonly string[]] {
  const now = new Date(clock.now());
  const text = messageText({ type, data }, now);
  const ids = notified.map(() => newId('msg', now.getTime()));
  const sealed = ids.map((id) => vault.seal(text, payloadPlace(tenantId, id)));
  return [type, now, notified, ids, sealed];
}

/** Inserts the event and, if the event is new, the messages to the tenant's active channels. */
const insertOnce = `
with recorded as (
  insert into event_outbox (tenant_id, event_id, event, mac)
  select $1, $2, $3, $9
  where not exists (select 1 from evidence_row where tenant_id = $1 and event_id = $2)
  on conflict do nothing returning event_id)
insert into delivery (id, tenant_id, channel, kind, subject, sealed, next_attempt_at, created_at)
select m.id, $1, m.channel, $4, 'integrity', m.sealed, $5, $5
  from recorded, unnest($6::text[], $7::text[], $8::text[]) as m (channel, id, sealed)
  join install i on i.tenant_id = $1 and i.channel = m.channel and i.status = 'active'`;

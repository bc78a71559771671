import { z } from 'zod';
import type { Services } from '../core/services.ts';
import { newEvent } from '../ledger/sealing/new-event.ts';
import { recordEvent } from '../ledger/sealing/outbox.ts';
import { integrityChain } from '../platform/integrity/incident-ids.ts';
import { outboxMac } from '../platform/integrity/outbox-mac.ts';
import { signRow } from '../platform/integrity/sign-row.ts';
import type { EventOutbox } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { markBaseline } from './baseline.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard' | 'vault' | 'log'>;

const signedType = 'integrity.outbox_signed';

/**
 * Signs the outbox rows of the previous version, and creates tombstones for the bindings that the
 * previous version removed. Runs only once in the life of a database, because a second run would
 * also sign forged rows. As with the first baseline, a marker, the ledgers and the envelope of the
 * root secret prevent a second run.
 */
export async function signOldOutbox(services: Deps): Promise<void> {
  const { db, log } = services;
  await db.$transaction(
    async (tx) => {
      await lockFor(tx, '', 'integrity baseline');
      if ((await tx.integrityBaseline.findUnique({ where: { id: 2 } })) !== null) return;
      if (await wasSignedBefore(tx)) {
        log.error(
          {},
          'the marker of the signed outbox is gone from the database: nothing is signed',
        );
        return;
      }
      for (const { id } of await tx.tenant.findMany({ select: { id: true } })) {
        const waiting = await signOutbox(services, tx, id);
        const removed = await signRemovals(services, tx, id, waiting);
        const rows = { event_outbox: waiting.length, binding_removal: removed };
        const fields = { type: signedType, chainId: integrityChain, data: { rows } };
        const place = { tenantId: id, vault: services.vault };
        await recordEvent(tx, place, newEvent(fields, services.clock));
      }
      await markBaseline(services, tx, 2);
    },
    { timeout: 600_000 },
  );
}

/**
 * Returns whether a ledger, an outbox event or a tombstone proves an earlier run, although the
 * marker is missing.
 */
async function wasSignedBefore(tx: Transaction): Promise<boolean> {
  const rows = await tx.$queryRaw<{ known: boolean }[]>`
    select exists (select 1 from evidence_head h join evidence_row e
                   on e.tenant_id = h.tenant_id and e.type = ${signedType})
        or exists (select 1 from event_outbox where strpos(event, ${signedType}) > 0)
        or exists (select 1 from binding_removal) as known`;
  return rows[0]?.known !== false;
}

/** Signs the unsigned outbox rows and returns them, oldest first. */
async function signOutbox({ vault }: Deps, tx: Transaction, tenantId: string) {
  const rows = await tx.eventOutbox.findMany({
    where: { tenantId, mac: null },
    orderBy: { id: 'asc' },
  });
  for (const { id, eventId, event } of rows) {
    const mac = outboxMac(vault, { tenantId, eventId, event });
    await tx.eventOutbox.update({ where: { id }, data: { mac } });
  }
  return rows;
}

const prefix = 'bindings:';
const bindingEvent = z.object({
  type: z.enum(['binding.written', 'binding.removed']),
  chain_id: z.string().startsWith(prefix),
});

interface Last {
  readonly chainId: string;
  readonly type: string;
  readonly eventId: string;
  readonly at: Date;
}

/**
 * Creates tombstones for bindings whose last event, sealed or in the outbox, is a removal; returns
 * their number.
 */
async function signRemovals(
  services: Deps,
  tx: Transaction,
  tenantId: string,
  waiting: readonly EventOutbox[],
): Promise<number> {
  const sealed = await tx.evidenceRow.findMany({
    where: {
      tenantId,
      source: 'control-plane',
      chainId: { startsWith: prefix },
      type: { in: bindingEvent.shape.type.options },
    },
    orderBy: { position: 'asc' },
    select: { chainId: true, type: true, eventId: true, occurredAt: true },
  });
  const events = [
    ...sealed.map(({ occurredAt: at, ...event }): Last => ({ ...event, at })),
    ...waiting.flatMap(lastOf),
  ];
  const last = new Map(events.map((event) => [event.chainId, event]));
  const bound = await tx.binding.findMany({ where: { tenantId }, select: { name: true } });
  const names = new Set(bound.map(({ name }) => name));
  let signed = 0;
  for (const { chainId, type, eventId, at: removedAt } of last.values()) {
    const name = chainId.slice(prefix.length);
    if (type !== 'binding.removed' || names.has(name)) continue;
    const row = await tx.bindingRemoval.create({ data: { tenantId, name, eventId, removedAt } });
    await signRow(tx, services, 'binding_removal', row);
    signed += 1;
  }
  return signed;
}

function lastOf({ eventId, event, createdAt: at }: EventOutbox): readonly Last[] {
  const read = parseJson(bindingEvent, event);
  return read === undefined ? [] : [{ chainId: read.chain_id, type: read.type, eventId, at }];
}

/** Returns undefined if the text is not JSON or does not match the schema. */
function parseJson<Read>(schema: z.ZodType<Read>, text: string): Read | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

import { refreshGraceMs } from '../../shared/passport/single-use-claim.ts';
import { votedFor, voteText } from '../approvals/load-approval-facts.ts';
import { openStates } from '../approvals/open-states.ts';
import type { Services } from '../core/services.ts';
import { newEvent } from '../ledger/sealing/new-event.ts';
import { recordEvent } from '../ledger/sealing/outbox.ts';
import { integrityChain } from '../platform/integrity/incident-ids.ts';
import { signRow } from '../platform/integrity/sign-row.ts';
import { readTextColumn } from '../platform/store/read-column.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { lockFor } from '../platform/store/transaction.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard' | 'vault' | 'log'>;

const signedType = 'integrity.rows_signed';
/**
 * Decisions older than this are not signed, because their grants and denials no longer have an
 * effect.
 */
const decidedMs = 400 * 86_400_000;

/**
 * Signs the rows that were written before rows were signed. Runs only once in the life of a
 * database, because a second run would also sign forged rows. Signs nothing if a ledger event or a
 * signed row proves an earlier run, even if the marker is missing.
 */
export async function signOldRows(services: Deps): Promise<void> {
  const { db, log } = services;
  if ((await db.integrityBaseline.findUnique({ where: { id: 1 } })) !== null) return;
  await db.$transaction(
    async (tx) => {
      await lockFor(tx, '', 'integrity baseline');
      if ((await tx.integrityBaseline.findUnique({ where: { id: 1 } })) !== null) return;
      if (await wasSignedBefore(tx)) {
        log.error({}, 'the marker of signed rows is gone from the database: no row is signed anew');
        return;
      }
      await signAll(services, tx);
      await markBaseline(services, tx, 1);
    },
    { timeout: 600_000 },
  );
}

/** Stores the marker of a completed baseline: 1 for the rows, 2 for the outbox. */
export async function markBaseline({ clock, vault }: Deps, tx: Transaction, id: 1 | 2) {
  const signedAt = new Date(clock.now());
  const mac = vault.mac('integrity_baseline', String(signedAt.getTime()));
  await tx.integrityBaseline.create({ data: { id, signedAt, mac } });
}

async function wasSignedBefore(tx: Transaction): Promise<boolean> {
  const rows = await tx.$queryRaw<{ known: boolean }[]>`
    select exists (select 1 from evidence_head h join evidence_row e
                   on e.tenant_id = h.tenant_id and e.type = ${signedType})
        or exists (select 1 from event_outbox where event::jsonb ->> 'type' = ${signedType})
        or exists (select 1 from tenant where mac is not null)
        or exists (select 1 from signing_key where mac is not null) as known`;
  return rows[0]?.known !== false;
}

async function signAll(services: Deps, tx: Transaction): Promise<void> {
  const counts = new Map<string, Record<string, number>>();
  const nowMs = services.clock.now();
  for (const [table, rows] of await oldRows(tx, nowMs)) {
    for (const row of rows) {
      await signRow(tx, services, table, row as never);
      const { tenantId, id } = row as { readonly tenantId?: string; readonly id?: unknown };
      const count = counts.get(tenantId ?? String(id)) ?? {};
      counts.set(tenantId ?? String(id), { ...count, [table]: (count[table] ?? 0) + 1 });
    }
  }
  for (const { id } of await tx.tenant.findMany({ select: { id: true } })) {
    const data = { rows: counts.get(id) ?? {} };
    const event = newEvent({ type: signedType, chainId: integrityChain, data }, services.clock);
    await recordEvent(tx, { tenantId: id, vault: services.vault }, event);
  }
}

async function oldRows(tx: Transaction, nowMs: number) {
  const since = new Date(nowMs - decidedMs);
  const open = { status: { in: openStates } };
  return [
    ['tenant', await tx.tenant.findMany()],
    ['signing_key', await tx.signingKey.findMany()],
    ['api_key', await tx.apiKey.findMany()],
    ['agent', await tx.agent.findMany()],
    ['service_account', await tx.serviceAccount.findMany()],
    ['directory_user', await tx.directoryUser.findMany()],
    ['policy', await tx.policy.findMany()],
    ['tool', await tx.tool.findMany()],
    ['kill_switch', await tx.killSwitch.findMany()],
    ['sidecar', await tx.sidecar.findMany()],
    ['enrolment_token', await tx.enrolmentToken.findMany()],
    [
      'passport',
      await tx.passport.findMany({
        where: { expiresAt: { gt: new Date(nowMs - refreshGraceMs) } },
      }),
    ],
    [
      'approval',
      await tx.approval.findMany({ where: { OR: [open, { decidedAt: { gt: since } }] } }),
    ],
    ['approval_vote', await oldVotes(tx)],
  ] as const;
}

async function oldVotes(tx: Transaction) {
  const where = { approval: { status: { in: openStates } } };
  const votes = await tx.approvalVote.findMany({ where });
  const signable = [];
  for (const vote of votes) {
    const { tenantId, eventId } = vote;
    const sealed = await tx.evidenceRow.findFirst({ where: { tenantId, eventId } });
    const waiting = await tx.eventOutbox.findFirst({ where: { tenantId, eventId } });
    const text = sealed?.canonical ?? waiting?.event;
    if (text === undefined) continue;
    const event = readTextColumn(voteText, text, 'evidence_row.canonical');
    signable.push({ ...vote, ...votedFor(event) });
  }
  return signable;
}

import { sidecarAudience } from '../../shared/passport/audience.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { LiveSidecar } from '../core/live-sidecars.ts';
import { bumpSections } from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import type { Ledger } from '../ledger/sealing/ledger.ts';
import { agentChain, newEvent } from '../ledger/sealing/new-event.ts';
import { leaseSeconds, neverRenewed, newLeaseJti } from '../passports/sidecar-passports.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { SignedClient } from '../platform/signed-store/tables.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Passport, Sidecar } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from '../records/agent-row-id.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard'> & { readonly ledger: Pick<Ledger, 'record'> };

/** Maximum number of leases that a sidecar gets per minute if it asks for them. */
const askedPerMinuteMax = 10;

interface SidecarRef {
  readonly tenantId: string;
  readonly sidecarId: string;
  readonly nowMs: number;
}

interface Reading {
  readonly tx: SignedClient;
  readonly guard: RowGuard;
}

/** Returns the lease that a sidecar uses: the lease that was issued last, if it is valid. */
export async function currentLease(
  reading: Reading,
  whose: SidecarRef,
): Promise<Verified<Passport> | undefined> {
  const [latest] = await validLeases(reading, whose);
  return latest;
}

async function validLeases(
  { tx, guard }: Reading,
  { tenantId, sidecarId, nowMs }: SidecarRef,
): Promise<readonly Verified<Passport>[]> {
  return signedRows({ db: tx, guard }, 'passport').findValid({
    where: { tenantId, kind: 'lease', sidecarId, expiresAt: { gt: new Date(nowMs) } },
    orderBy: [{ issuedAt: 'desc' }, { jti: 'desc' }],
  });
}

/** Returns the sidecars whose lease is missing or past half of its lifetime. */
export async function withoutLease(
  services: Pick<Services, 'db' | 'guard'>,
  sidecars: readonly LiveSidecar[],
  nowMs: number,
): Promise<readonly LiveSidecar[]> {
  if (sidecars.length === 0) return [];
  const halfLater = new Date(nowMs + (leaseSeconds / 2) * 1000);
  // Ignores forged leases, because a sidecar with a forged lease needs a valid one.
  const verified = await signedRows(services, 'passport').findValid({
    where: { kind: 'lease', expiresAt: { gt: halfLater } },
  });
  const served = new Set(verified.map(({ tenantId, sidecarId }) => `${tenantId} ${sidecarId}`));
  return sidecars.filter(({ tenantId, id }) => !served.has(`${tenantId} ${id}`));
}

/**
 * Issues a lease and bumps the sidecar's section, in one transaction. If several control planes try
 * at once, only one succeeds. `asked`: the sidecar asked because it has no usable lease; the number
 * of such leases per minute is limited.
 */
export async function renewLease(
  { db, clock, guard, ledger }: Deps,
  sidecar: LiveSidecar,
  { asked }: { readonly asked: boolean },
): Promise<boolean> {
  const { id: sidecarId, tenantId } = sidecar;
  return db.$transaction(async (tx) => {
    const locked = await tx.$queryRaw<unknown[]>`
      select id from sidecar where tenant_id = ${tenantId} and id = ${sidecarId}
        and revoked_at is null for no key update skip locked`;
    if (locked.length === 0) return false;
    const sidecars = signedRows({ db: tx, guard }, 'sidecar');
    const [row] = await sidecars.findValid({ where: { id: sidecarId } });
    if (row === undefined) return false;
    const nowMs = clock.now();
    const leases = await validLeases({ tx, guard }, { tenantId, sidecarId, nowMs });
    // Uses `row`, which was verified in this transaction, instead of what was read earlier.
    if (!isDue(leases, { asked, nowMs }) || !(await isAgentEnabled(tx, guard, row))) return false;
    // The time is always later than that of the previous lease, even if the clock is behind,
    // because the sidecar uses the latest lease.
    const issuedAtMs = Math.max(nowMs, (leases[0]?.issuedAt.getTime() ?? 0) + 1);
    await issue({ tx, guard, ledger, clock }, row, issuedAtMs);
    await bumpSections(tx, tenantId, [sidecarSection(sidecarId)]);
    return true;
  });
}

function isDue(
  leases: readonly Verified<Passport>[],
  { asked, nowMs }: { readonly asked: boolean; readonly nowMs: number },
): boolean {
  if (asked) {
    const lately = leases.filter(({ issuedAt }) => issuedAt.getTime() > nowMs - 60_000);
    return lately.length < askedPerMinuteMax;
  }
  const [latest] = leases;
  return latest === undefined || latest.expiresAt.getTime() <= nowMs + (leaseSeconds / 2) * 1000;
}

async function isAgentEnabled(
  tx: Transaction,
  guard: RowGuard,
  { tenantId, agentId }: Verified<Sidecar>,
): Promise<boolean> {
  const id = agentRowId(agentId);
  if (id === undefined) return false;
  const agents = signedRows({ db: tx, guard }, 'agent');
  return (await agents.findValid({ where: { tenantId, id, disabledAt: null } })).length > 0;
}

async function issue(
  {
    tx,
    guard,
    ledger,
    clock,
  }: Pick<Deps, 'guard' | 'ledger' | 'clock'> & { readonly tx: Transaction },
  { tenantId, id: sidecarId, agentId, userId }: Verified<Sidecar>,
  nowMs: number,
): Promise<void> {
  const jti = newLeaseJti(nowMs);
  const expiresAt = new Date((Math.floor(nowMs / 1000) + leaseSeconds) * 1000);
  const audience = sidecarAudience(sidecarId);
  const isNew = await signedRows({ db: tx, guard }, 'passport').insert({
    tenantId,
    jti,
    kind: 'lease',
    agentId,
    userId,
    audience,
    riskTier: 'low',
    approvalHash: null,
    sidecarId,
    issuedAt: new Date(nowMs),
    expiresAt,
    ...neverRenewed,
  });
  if (!isNew) throw new Error('a lease with the same id exists');
  const event = newEvent(
    {
      type: 'passport.issued',
      chainId: agentChain(agentId),
      agentId,
      userId,
      data: { audience, expires_at: expiresAt.toISOString(), jti, kind: 'lease' },
    },
    clock,
  );
  await ledger.record(tx, tenantId, event);
}

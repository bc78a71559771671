import type { PassportClaims } from '../../shared/passport/claims.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { bumpSections } from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import type { Ledger } from '../ledger/sealing/ledger.ts';
import { agentChain, newEvent } from '../ledger/sealing/new-event.ts';
import { neverRenewed } from '../passports/sidecar-passports.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { grantOf, readApprovals } from './delivered-approvals.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard'> & { readonly ledger: Pick<Ledger, 'record'> };

/**
 * Issues the missing passports of a sidecar's grants. The row, its event and the section version
 * commit together. The claims are derived only from the decision, so if several control planes
 * issue the same passport, one of them inserts its row and the others find this row.
 */
export async function issueGrants(
  { db, clock, guard, ledger }: Deps,
  { tenantId, sidecarId }: { readonly tenantId: string; readonly sidecarId: string },
): Promise<void> {
  const nowMs = clock.now();
  await db.$transaction(async (tx) => {
    const proven = await readApprovals({ tx, guard, tenantId, sidecarId, nowMs });
    const grants = proven.flatMap((approval) => grantOf(approval, nowMs) ?? []);
    let issued = 0;
    for (const claims of await notIssued(tx, tenantId, grants)) {
      if (!(await insert({ tx, guard }, claims, sidecarId))) continue;
      await ledger.record(tx, tenantId, issuedEvent(claims, clock));
      issued += 1;
    }
    if (issued > 0) await bumpSections(tx, tenantId, [sidecarSection(sidecarId)]);
  });
}

async function notIssued(
  tx: Transaction,
  tenantId: string,
  grants: readonly PassportClaims[],
): Promise<readonly PassportClaims[]> {
  if (grants.length === 0) return [];
  const rows = await claimedRows(tx, 'passport').findClaims(['jti'], {
    where: { tenantId, jti: { in: grants.map(({ jti }) => jti) } },
  });
  const known = new Set(rows.map(({ jti }) => jti));
  return grants.filter(({ jti }) => !known.has(jti));
}

async function insert(
  { tx, guard }: { readonly tx: Transaction; readonly guard: RowGuard },
  claims: PassportClaims,
  sidecarId: string,
): Promise<boolean> {
  return signedRows({ db: tx, guard }, 'passport').insert({
    tenantId: claims.tenant_id,
    jti: claims.jti,
    kind: 'grant',
    agentId: claims.sub,
    userId: claims.user_id,
    audience: claims.aud,
    riskTier: claims.risk_tier,
    approvalHash: claims.approval_hash,
    sidecarId,
    issuedAt: new Date(claims.iat * 1000),
    expiresAt: new Date(claims.exp * 1000),
    ...neverRenewed,
  });
}

function issuedEvent(claims: PassportClaims, clock: Services['clock']) {
  return newEvent(
    {
      type: 'passport.issued',
      chainId: agentChain(claims.sub),
      agentId: claims.sub,
      userId: claims.user_id,
      tool: claims.allowed_tools[0],
      resource: claims.allowed_resources[0],
      data: {
        approval_hash: claims.approval_hash,
        audience: claims.aud,
        expires_at: new Date(claims.exp * 1000).toISOString(),
        jti: claims.jti,
        kind: 'grant',
      },
    },
    clock,
  );
}

import type { Log } from '../../shared/base/log.ts';
import type { SigningKey } from '../../shared/crypto/signing-key.ts';
import { signPassport } from '../../shared/passport/issue.ts';
import { policySetHash } from '../../shared/policy/language/hash.ts';
import type { DeliveredApproval, SidecarSectionBody } from '../../shared/sync/sections.ts';
import { leaseClaims } from '../passports/sidecar-passports.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { credentialsVersion } from '../sidecars/credentials-version.ts';
import type { BuildContext } from './build-sections.ts';
import {
  deliveredApproval,
  grantOf,
  type ProvenApproval,
  readApprovals,
} from './delivered-approvals.ts';
import { currentLease } from './leases.ts';

interface SidecarContext extends BuildContext {
  readonly passportKey: SigningKey;
  readonly log: Log;
}

const nothing: SidecarSectionBody = { approvals: [], credentialsVersion: 0 };

interface BuiltSidecarSection {
  readonly body: SidecarSectionBody;
  /**
   * True if the passport of a granted approval has not been issued yet. The section must then not
   * be published.
   */
  readonly lacksGrants: boolean;
}

/**
 * Builds the section that one sidecar reads. The section of a revoked or unknown sidecar is empty.
 */
export async function buildSidecarSection(
  context: SidecarContext,
  sidecarId: string,
): Promise<BuiltSidecarSection> {
  const { tx, tenantId, guard } = context;
  const [sidecar] = await signedRows({ db: tx, guard }, 'sidecar').findValid({
    where: { tenantId, id: sidecarId, revokedAt: null },
  });
  if (sidecar === undefined) return { body: nothing, lacksGrants: false };
  const lease = await buildLease(context, sidecar);
  const { approvals, lacksGrants } = await buildApprovals(context, sidecar);
  const body = {
    ...(lease === undefined ? {} : { lease }),
    approvals,
    credentialsVersion: await credentialsVersion(tx, tenantId, sidecar.agentId),
  };
  return { body, lacksGrants };
}

async function buildLease(
  { tx, tenantId, nowMs, passportKey, guard }: SidecarContext,
  sidecar: Verified<Sidecar>,
): Promise<string | undefined> {
  const row = await currentLease({ tx, guard }, { tenantId, sidecarId: sidecar.id, nowMs });
  const id = agentRowId(sidecar.agentId);
  if (row === undefined || id === undefined) return undefined;
  const [agent] = await signedRows({ db: tx, guard }, 'agent').findValid({
    where: { tenantId, id, disabledAt: null },
  });
  if (agent === undefined) return undefined;
  // Reads unverified rows: the lease only names these hashes. The section of policies is built from
  // verified rows.
  const published = await claimedRows(tx, 'policy').findClaims(['policyHash'], {
    where: { tenantId, lifecycle: 'published' },
  });
  const policyHash = policySetHash(published.map(({ policyHash }) => policyHash));
  const { jti, issuedAt } = row;
  const claims = leaseClaims({
    sidecar: { ...sidecar, tenantId },
    agent,
    policyHash,
    jti,
    issuedAt,
  });
  return signPassport(claims, passportKey);
}

async function buildApprovals(
  context: SidecarContext,
  { id: sidecarId, agentId }: Verified<Sidecar>,
): Promise<{ readonly approvals: readonly DeliveredApproval[]; readonly lacksGrants: boolean }> {
  const { tx, tenantId, nowMs, guard } = context;
  const proven = await readApprovals({ tx, guard, tenantId, sidecarId, agentId, nowMs });
  const jtis = proven.flatMap((one) => grantOf(one, nowMs)?.jti ?? []);
  const passports = signedRows({ db: tx, guard }, 'passport');
  const rows =
    jtis.length === 0
      ? []
      : await passports.findUnverified({ where: { tenantId, jti: { in: jtis } } });
  const grants = passports.valid(rows).filter(({ kind }) => kind === 'grant');
  const issued = new Set(grants.map(({ jti }) => jti));
  // A passport with a forged row is not issued again: its approval waits, but does not block
  // others.
  const known = new Set(rows.map((row) => claimsOf(row).jti));
  const approvals = proven.map((one) => deliver(one, { ...context, issued }));
  return { approvals, lacksGrants: jtis.some((jti) => !known.has(jti)) };
}

/**
 * Returns an approval as the sidecar receives it. If its arguments cannot be read, omits its grant,
 * because one approval must not block the others or the lease.
 */
function deliver(
  proven: ProvenApproval,
  granting: SidecarContext & { readonly issued: ReadonlySet<string> },
): DeliveredApproval {
  try {
    return deliveredApproval(proven, granting);
  } catch (error) {
    granting.log.error({ err: error, approval: proven.approval.id }, 'could not deliver a grant');
    return deliveredApproval(proven, { ...granting, issued: new Set() });
  }
}

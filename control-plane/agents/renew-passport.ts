import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { clampTools } from '../../shared/glob/glob.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { assertTtl, ttlSecondsMin } from '../../shared/passport/issue.ts';
import {
  claimMarginMs,
  claimPassport,
  refreshGraceMs,
} from '../../shared/passport/single-use-claim.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import { examinePassport } from '../passports/examine-passport.ts';
import {
  type MintedPassport,
  mintPassport,
  type RenewedPassport,
  stampedPolicyHash,
} from '../passports/mint-passport.ts';
import { lockRenewals } from '../passports/revoke-passport.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { assertEnabled, loadAgent, lockEnabledAgent } from '../records/load-agent.ts';

/** A chain of renewals ends after this time; a new passport must then be issued. */
const renewableForMs = 12 * 3_600_000;

interface Renewal {
  readonly agentId: number;
  readonly passport: string;
  readonly ttlSeconds?: number | undefined;
  /** True if a passport that expired within the grace period is also accepted. */
  readonly refresh: boolean;
}

interface RenewalResult extends MintedPassport {
  readonly replaces: string;
}

/**
 * Replaces an unused passport with a new one on the same terms, limited to the agent's current
 * capabilities. The new passport lives at most as long as the old one did. Claims the old passport
 * first: if a later step fails, neither passport is usable and a new one must be issued.
 */
export async function renewPassport(
  services: Services,
  caller: Caller,
  renewal: Renewal,
): Promise<RenewalResult> {
  const { tenantId, principal } = caller;
  const agentId = String(renewal.agentId);
  assertOwnAgent(caller, agentId);
  if (renewal.ttlSeconds !== undefined) assertTtl(renewal.ttlSeconds);
  const agent = await loadAgent(services, tenantId, renewal.agentId);
  assertEnabled(agent);
  const old = await usable(services, tenantId, { ...renewal, agentId });
  const allowedTools = clampTools(old.allowed_tools, agent.capabilities);
  if (allowedTools.length === 0) throw new GatewayError('passport.tool_not_allowed');
  const renews = await recordOf(services, old);
  const ttlSeconds = lifeOf(old, renews, { asked: renewal.ttlSeconds, now: services.clock.now() });
  const policyHash = await stampedPolicyHash(services, tenantId);
  await takeUse(services, old);
  const minted = await mintPassport(
    services,
    {
      tenantId,
      agentId,
      userId: old.user_id,
      goal: old.goal,
      allowedTools,
      allowedResources: old.allowed_resources,
      resourceConstraints: old.resource_constraints,
      riskTier: old.risk_tier,
      policyId: old.policy_id,
      policyHash,
      approvalHash: old.approval_hash,
      audience: old.aud,
      ttlSeconds,
      issuedBy: principal,
      renews,
    },
    async ({ tx, notes, claims }) => {
      await lockEnabledAgent(tx, tenantId, agentId);
      await replace(tx, { old, renews, services });
      await note(notes, { old, claims, by: principal });
    },
  );
  return { ...minted, replaces: old.jti };
}

/**
 * Returns the claims of a valid passport; `refresh` also accepts a passport that expired within the
 * grace period. Throws for any other passport.
 */
async function usable(
  services: Services,
  tenantId: string,
  { passport, agentId, refresh }: Omit<Renewal, 'agentId'> & { readonly agentId: string },
): Promise<PassportClaims> {
  const graceMs = refresh ? refreshGraceMs : 0;
  const examination = { passport, agentId, graceMs };
  const { errors, claims } = await examinePassport(services, tenantId, examination);
  const [failed] = errors;
  if (failed !== undefined) throw new GatewayError(failed.reason_code, { message: failed.message });
  if (claims === undefined) throw new GatewayError('passport.malformed');
  return claims;
}

/**
 * Returns the record of the passport to renew. Throws for leases and grants, because only passports
 * that were issued to an agent can be renewed.
 */
async function recordOf(
  services: Pick<Services, 'db' | 'guard'>,
  { tenant_id: tenantId, jti }: PassportClaims,
): Promise<RenewedPassport> {
  const passports = signedRows(services, 'passport');
  const row = await passports.findUnique({ where: { tenantId_jti: { tenantId, jti } } });
  if (row?.kind !== 'agent') throw new GatewayError('passport.not_renewable');
  return {
    jti,
    rootJti: row.rootJti ?? jti,
    rootIssuedAt: row.rootIssuedAt ?? row.issuedAt,
    attestedBy: row.attestedBy,
  };
}

function lifeOf(
  { exp, iat }: PassportClaims,
  { rootIssuedAt }: RenewedPassport,
  { asked, now }: { readonly asked: number | undefined; readonly now: number },
): number {
  const left = Math.floor((rootIssuedAt.getTime() + renewableForMs - now) / 1000);
  if (left < ttlSecondsMin) {
    throw new GatewayError('passport.not_renewable', {
      message:
        'Renewals of a passport end 12 hours after it was first issued: have a new one issued.',
    });
  }
  return Math.min(asked ?? exp - iat, exp - iat, left);
}

/** Claims the old passport's single use, across all replicas and sidecars. */
async function takeUse(services: Services, { tenant_id: tenantId, jti, exp }: PassportClaims) {
  const claimed = await claimPassport(
    { jti, expiresAtMs: exp * 1000, durable: false },
    {
      bus: services.bus,
      tenantId,
      nowMs: services.clock.now(),
      // The durable claim is stored with the new passport, in one transaction.
      claimDurably: async () => true,
      onFailure: (err) => services.log.warn({ err, jti }, 'could not claim a passport'),
    },
  );
  if (claimed === 'unavailable') throw new GatewayError('passport.claim_unavailable');
  if (claimed === 'replayed') throw new GatewayError('passport.replay_detected');
}

interface Replacement {
  readonly old: PassportClaims;
  readonly renews: RenewedPassport;
  readonly services: Pick<Services, 'clock'>;
}

/**
 * The lock serialises this renewal with a revocation of the renewal chain: the renewal sees an
 * earlier revocation, and a later revocation sees the new passport.
 */
async function replace(
  tx: Transaction,
  { old: { tenant_id: tenantId, jti, exp }, renews, services }: Replacement,
): Promise<void> {
  await lockRenewals(tx, tenantId, renews.rootJti);
  const revoked = await tx.passportRevocation.count({ where: { tenantId, jti } });
  if (revoked > 0) throw new GatewayError('passport.revoked');
  const { count } = await tx.passportUse.createMany({
    data: {
      tenantId,
      jti,
      usedAt: new Date(services.clock.now()),
      expiresAt: new Date(exp * 1000 + claimMarginMs),
    },
    skipDuplicates: true,
  });
  if (count !== 1) throw new GatewayError('passport.replay_detected');
}

async function note(
  notes: ChangeNotes,
  {
    old,
    claims,
    by,
  }: { readonly old: PassportClaims; readonly claims: PassportClaims; readonly by: string },
): Promise<void> {
  await notes.event({
    type: 'passport.renewed',
    chainId: agentChain(old.sub),
    agentId: old.sub,
    userId: old.user_id,
    data: {
      by,
      jti: old.jti,
      left_out_tools: old.allowed_tools.filter((tool) => !claims.allowed_tools.includes(tool)),
      replaced_by: claims.jti,
    },
  });
}

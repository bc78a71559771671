import type { JsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { buildClaims, type PassportGrant, signPassport } from '../../shared/passport/issue.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { loadPublishedPolicies } from '../policies/load-published.ts';

export const passportIssuer = 'sallyport';

interface MintRequest extends Omit<PassportGrant, 'issuer' | 'nowMs'> {
  /** Principal that requested the passport. */
  readonly issuedBy: string;
  /**
   * Principal that attests the user's presence. A renewal keeps the value of the first passport in
   * its chain.
   */
  readonly attestedBy?: string | undefined;
  /** The passport that this one replaces. */
  readonly renews?: RenewedPassport | undefined;
}

/** A passport that is renewed, and the beginning of its chain of renewals. */
export interface RenewedPassport {
  readonly jti: string;
  readonly rootJti: string;
  readonly rootIssuedAt: Date;
  readonly attestedBy: string | null;
}

/** Runs in the transaction that stores the passport, before the passport is stored. */
type Alongside = (step: {
  readonly tx: Transaction;
  readonly notes: ChangeNotes;
  readonly claims: PassportClaims;
}) => Promise<void>;

export interface MintedPassport {
  readonly token: string;
  readonly claims: PassportClaims;
  /** Time in the format of RFC 3339. */
  readonly expiresAt: string;
  /** Id of the event that proves the issue. */
  readonly evidenceId: string;
}

/**
 * Signs, stores and seals a new passport for an agent. The error names the failed step, and a
 * passport without a sealed event is never returned.
 */
export async function mintPassport(
  services: Services,
  { issuedBy, attestedBy, renews, ...grant }: MintRequest,
  alongside: Alongside,
): Promise<MintedPassport> {
  const nowMs = services.clock.now();
  const claims = buildClaims({ ...grant, issuer: passportIssuer, nowMs });
  const token = await sign(services, claims);
  const expiresAt = new Date(claims.exp * 1000);
  try {
    const { result } = await commitChange(services, claims.tenant_id, async (tx, notes) => {
      await alongside({ tx, notes, claims });
      const row = rowOf(claims, {
        issuedAt: new Date(nowMs),
        expiresAt,
        renews,
        attestedBy: renews?.attestedBy ?? attestedBy ?? null,
      });
      if (!(await notes.rows('passport').insert(row))) throw new Error('the passport exists');
      return notes.event({
        type: 'passport.issued',
        chainId: agentChain(claims.sub),
        agentId: claims.sub,
        userId: claims.user_id,
        data: {
          ...issuedData(claims, issuedBy),
          attested_by: row.attestedBy ?? undefined,
          replaces: renews?.jti,
        },
      });
    });
    return { token, claims, expiresAt: expiresAt.toISOString(), evidenceId: result.id };
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw new GatewayError('passport.persist_failed', { cause });
  }
}

interface Recorded {
  readonly issuedAt: Date;
  readonly expiresAt: Date;
  readonly renews: RenewedPassport | undefined;
  readonly attestedBy: string | null;
}

function rowOf(claims: PassportClaims, { issuedAt, expiresAt, renews, attestedBy }: Recorded) {
  return {
    tenantId: claims.tenant_id,
    jti: claims.jti,
    kind: 'agent',
    agentId: claims.sub,
    userId: claims.user_id,
    audience: claims.aud,
    riskTier: claims.risk_tier,
    approvalHash: claims.approval_hash,
    sidecarId: null,
    issuedAt,
    expiresAt,
    renewedFrom: renews?.jti ?? null,
    rootJti: renews?.rootJti ?? null,
    rootIssuedAt: renews?.rootIssuedAt ?? null,
    attestedBy,
  };
}

/** Maximum length that verifiers accept; see verifyJws. */
const tokenCharsMax = 65_536;

async function sign({ signingKeys }: Services, claims: PassportClaims): Promise<string> {
  const token = await signWithActiveKey(signingKeys, claims);
  if (token.length <= tokenCharsMax) return token;
  throw new GatewayError('args.schema_invalid', {
    message: `The passport would be ${token.length} characters long; the limit is ${tokenCharsMax}. Name fewer tools and resources.`,
  });
}

async function signWithActiveKey(
  signingKeys: Services['signingKeys'],
  claims: PassportClaims,
): Promise<string> {
  try {
    return signPassport(claims, await signingKeys.active(claims.tenant_id, 'passport'));
  } catch (cause) {
    throw new GatewayError('passport.sign_failed', { cause });
  }
}

function issuedData(claims: PassportClaims, issuedBy: string): JsonObject {
  return {
    allowed_resources: claims.allowed_resources,
    allowed_tools: claims.allowed_tools,
    approval_hash: claims.approval_hash,
    audience: claims.aud,
    expires_at: new Date(claims.exp * 1000).toISOString(),
    goal: claims.goal,
    issued_by: issuedBy,
    jti: claims.jti,
    policy_hash: claims.policy_hash,
    policy_id: claims.policy_id,
    risk_tier: claims.risk_tier,
  };
}

/** Returns the hash of the currently published policies, in the form that passports contain. */
export async function stampedPolicyHash(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<string> {
  try {
    return (await loadPublishedPolicies(services, tenantId)).hash;
  } catch (cause) {
    throw new GatewayError('policy.load_failed', { cause });
  }
}

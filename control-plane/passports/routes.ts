import * as contract from '../../shared/contract/passports.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { verifyPassport } from './examine-passport.ts';
import { issuePassport } from './issue-passport.ts';
import { passportKeySet } from './public-keys.ts';
import { revokePassport } from './revoke-passport.ts';

export function passportRoutes(services: Services): Route[] {
  return [
    route(contract.issuePassport, async ({ body }, caller) => {
      const minted = await issuePassport(services, caller, {
        tenantId: body.tenant_id,
        agentId: body.agent_id,
        userId: body.user_id,
        goal: body.goal,
        allowedTools: body.allowed_tools,
        allowedResources: body.allowed_resources,
        resourceConstraints: body.resource_constraints,
        riskTier: body.risk_tier,
        policyId: body.policy_id,
        approvalHash: body.approval_hash,
        audience: body.audience,
        ttlSeconds: body.ttl_seconds,
      });
      const { token, claims, expiresAt, evidenceId } = minted;
      return {
        body: {
          passport: token,
          token,
          claims,
          jti: claims.jti,
          expires_at: expiresAt,
          evidence_id: evidenceId,
        },
      };
    }),
    route(contract.verifyPassport, async ({ body }, caller) => {
      const { valid, errors, claims } = await verifyPassport(services, caller, body);
      return { body: { valid, errors: [...errors], ...(claims === undefined ? {} : { claims }) } };
    }),
    route(contract.revokePassport, async ({ body }, caller) => {
      const { jti, reason, revokedAt } = await revokePassport(services, caller, body);
      return { body: { jti, revoked: true as const, revoked_at: revokedAt.toISOString(), reason } };
    }),
    route(contract.getPassportJwks, async () => ({
      headers: { 'cache-control': 'public, max-age=300' },
      body: { keys: [...(await passportKeySet(services))] },
    })),
  ];
}

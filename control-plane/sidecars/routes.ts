import * as calls from '../../shared/contract/sidecar-calls.ts';
import * as contract from '../../shared/contract/sidecars.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { claimSidecarPassport } from './claim-sidecar-passport.ts';
import { enrolledBody, enrolSidecar } from './enrol-sidecar.ts';
import { createEnrolmentToken } from './enrolment-token.ts';
import {
  currentVersions,
  listSidecars,
  reportSidecar,
  revokeSidecar,
  sidecarRecord,
} from './fleet.ts';
import { keySuccession } from './key-succession.ts';
import { sidecarCredentials } from './seal-deliveries.ts';
import { openSidecarApproval, spendSidecarApproval } from './sidecar-approvals.ts';
import { sidecarUsage } from './sidecar-usage.ts';
import { uploadEvidence } from './upload-evidence.ts';
import { uploadIn } from './uploaded-segment.ts';

export function sidecarRoutes(services: Services): Route[] {
  return [...fleetRoutes(services), ...ownRoutes(services)];
}

/** Operations for operators, and a sidecar's enrolment. */
function fleetRoutes(services: Services): Route[] {
  return [
    route(contract.createEnrolmentToken, async ({ body }, caller) => {
      const { agent_id, user_id, environment, max_uses } = body;
      const { token, expiresAt, capabilities } = await createEnrolmentToken(services, caller, {
        agentId: agent_id,
        userId: user_id,
        environment,
        maxUses: max_uses,
      });
      const expires_at = expiresAt.toISOString();
      const asked = { agent_id, user_id, environment, max_uses };
      return { body: { token, expires_at, ...asked, capabilities: [...capabilities] } };
    }),
    route(contract.enrolSidecar, async ({ body }) => {
      const enrolled = await enrolSidecar(services, {
        token: body.token,
        signingJwk: body.signing_jwk,
        encryptionJwk: body.encryption_jwk,
        version: body.version,
      });
      return { body: enrolledBody(enrolled) };
    }),
    route(contract.listSidecars, async (_input, caller) => ({
      body: {
        sidecars: (await listSidecars(services, caller)).map(sidecarRecord),
        sections: await currentVersions(services, caller),
      },
    })),
    route(contract.revokeSidecar, async ({ params: { id } }, caller) => {
      const revokedAt = await revokeSidecar(services, caller, id);
      return { body: { id, revoked: true as const, revoked_at: revokedAt.toISOString() } };
    }),
  ];
}

/** Operations that an enrolled sidecar calls. */
function ownRoutes(services: Services): Route[] {
  return [
    route(contract.reportSidecar, async ({ body }, caller) => {
      const seenAt = await reportSidecar(services, caller, body);
      const { kid } = await services.signingKeys.active(caller.tenantId, 'sync');
      return { body: { seen_at: seenAt.toISOString(), section_key_id: kid } };
    }),
    route(contract.getSidecarCredentials, async (_input, caller) => ({
      headers: { 'cache-control': 'no-store' },
      body: await sidecarCredentials(services, caller),
    })),
    route(calls.uploadEvidence, async ({ body }, caller) => ({
      body: await uploadEvidence(services, caller, uploadIn(body)),
    })),
    route(calls.openSidecarApproval, async ({ body }, caller) => {
      const { tool, resource, args, mcp, goal } = body;
      const approval = await openSidecarApproval(services, caller, {
        action: { tool, resource, args, mcp, goal },
        userId: body.user_id,
        passportJti: body.passport_jti,
        passport: body.passport,
        manifestHash: body.manifest_hash,
        riskTier: body.risk_tier,
        terms: body.terms,
        actionDigest: body.action_digest,
      });
      const { id, status, expiresAt } = approval;
      return { body: { approval_id: id, status, expires_at: expiresAt.toISOString() } };
    }),
    route(calls.spendSidecarApproval, async ({ params }, caller) => {
      const { eventHash } = await spendSidecarApproval(services, caller, params.id);
      return { body: { spent: true as const, event_hash: eventHash } };
    }),
    route(calls.getSidecarUsage, async ({ query }, caller) => ({
      body: await sidecarUsage(services, caller, query),
    })),
    route(calls.getKeySuccession, async (_input, caller) => ({
      body: { statements: [...(await keySuccession(services, caller))] },
    })),
    route(calls.claimSidecarPassport, async ({ body }, caller) => ({
      body: { claimed: await claimSidecarPassport(services, caller, body.jti) },
    })),
  ];
}

import * as contract from '../../shared/contract/enrolment-rules.ts';
import { enrolWorkload as enrolOperation } from '../../shared/contract/workload-enrolment.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { enrolledBody } from '../sidecars/enrol-sidecar.ts';
import { enrolWorkload } from './enrol-workload.ts';
import {
  deleteEnrolmentRule,
  getEnrolmentRule,
  listEnrolmentRules,
  putEnrolmentRule,
} from './enrolment-rules.ts';
import { createTokenVerifier } from './verify-token.ts';

export function workloadRoutes(services: Services): readonly Route[] {
  // Created only once, because it caches the issuers' keys.
  const verifyToken = createTokenVerifier(services);
  return [
    route(contract.listEnrolmentRules, async (_input, caller) => ({
      body: { rules: [...(await listEnrolmentRules(services, caller))] },
    })),
    route(contract.getEnrolmentRule, async ({ params }, caller) => ({
      body: await getEnrolmentRule(services, caller, params.name),
    })),
    route(contract.putEnrolmentRule, async ({ params, body }, caller) => {
      const given = { name: params.name, fields: body };
      const { rule, capabilities, revokedSidecars } = await putEnrolmentRule(
        services,
        caller,
        given,
      );
      const more = { capabilities: [...capabilities], revoked_sidecars: revokedSidecars };
      return { body: { ...rule, ...more } };
    }),
    route(contract.deleteEnrolmentRule, async ({ params: { name } }, caller) => {
      const revoked_sidecars = await deleteEnrolmentRule(services, caller, name);
      return { body: { name, deleted: true as const, revoked_sidecars } };
    }),
    route(enrolOperation, async ({ body }) => {
      const enrolled = await enrolWorkload(services, verifyToken, {
        token: body.token,
        tenantId: body.tenant_id,
        signingJwk: body.signing_jwk,
        encryptionJwk: body.encryption_jwk,
        proof: body.proof,
        version: body.version,
      });
      return { body: enrolledBody(enrolled) };
    }),
  ];
}

import { actionRoutes } from './actions/routes.ts';
import { agentRoutes } from './agents/routes.ts';
import { approvalRoutes } from './approvals/routes.ts';
import { bindingRoutes } from './bindings/routes.ts';
import { complianceRoutes } from './compliance/routes.ts';
import type { Services } from './core/services.ts';
import { credentialRoutes } from './credentials/routes.ts';
import { evidenceRoutes } from './evidence/routes.ts';
import { keyRoutes } from './keys/routes.ts';
import { killSwitchRoutes } from './kill-switches/routes.ts';
import { notifyRoutes } from './notifications/routes.ts';
import { passportRoutes } from './passports/routes.ts';
import type { Route } from './platform/http/route.ts';
import { policyRoutes } from './policies/routes.ts';
import { privacyRoutes } from './privacy/routes.ts';
import { sidecarRoutes } from './sidecars/routes.ts';
import { tenantRoutes } from './tenants/routes.ts';
import { toolRoutes } from './tools/routes.ts';
import { trialRoutes } from './trials/routes.ts';
import { userRoutes } from './users/routes.ts';
import { workloadRoutes } from './workloads/routes.ts';

/** All operations of the control plane, bound to their use cases. */
export function allRoutes(services: Services): readonly Route[] {
  return [
    ...actionRoutes(services),
    ...passportRoutes(services),
    ...approvalRoutes(services),
    ...policyRoutes(services),
    ...trialRoutes(services),
    ...toolRoutes(services),
    ...agentRoutes(services),
    ...evidenceRoutes(services),
    ...privacyRoutes(services),
    ...complianceRoutes(services),
    ...credentialRoutes(services),
    ...keyRoutes(services),
    ...bindingRoutes(services),
    ...killSwitchRoutes(services),
    ...sidecarRoutes(services),
    ...workloadRoutes(services),
    ...tenantRoutes(services),
    ...userRoutes(services),
    ...notifyRoutes(services),
  ];
}

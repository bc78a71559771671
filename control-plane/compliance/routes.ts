import * as contract from '../../shared/contract/compliance.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { complianceReport } from './report.ts';

export function complianceRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getCompliance, async (_input, { tenantId }) => ({
      body: await complianceReport(services, tenantId),
    })),
  ];
}

import * as contract from '../../shared/contract/compliance.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { complianceReport } from './report.ts';

export function complianceRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getCompliance, async (_input, { tenantId }) => ({
      body: await complianceReport(services, tenantId),
    })),
  ];
}

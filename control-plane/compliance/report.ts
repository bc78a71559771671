import type { ComplianceReport, ControlReport } from '../../shared/contract/compliance.ts';
import { signObject } from '../../shared/crypto/signed-object.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { changeControl } from './change-control.ts';
import { assessControl, type Control } from './control.ts';
import { evidenceControl } from './evidence-control.ts';
import { keyControl } from './key-control.ts';
import { monitoringControl } from './monitoring-control.ts';
import { oversightControl } from './oversight-control.ts';
import { policyControl } from './policy-control.ts';

const controls: readonly Control[] = [
  policyControl,
  oversightControl,
  evidenceControl,
  keyControl,
  changeControl,
  monitoringControl,
];

/** `typ` of a report's signature. */
export const complianceTyp = 'compliance-report';

/**
 * Checks a tenant's six controls one after another, to limit the load on the database, and builds
 * the report.
 */
export async function complianceReport(
  services: Services,
  tenantId: string,
): Promise<ComplianceReport> {
  const reports: ControlReport[] = [];
  for (const control of controls) reports.push(await assessControl(services, tenantId, control));
  const pass = reports.filter(({ status }) => status === 'pass').length;
  const fail = reports.length - pass;
  return signed(services, tenantId, {
    tenant: tenantId,
    status: fail === 0 ? 'pass' : 'fail',
    generated_at: new Date(services.clock.now()).toISOString(),
    controls: reports,
    summary: { pass, fail },
  });
}

async function signed(
  { signingKeys }: Services,
  tenantId: string,
  report: Omit<ComplianceReport, 'signature'>,
): Promise<ComplianceReport> {
  try {
    const key = await signingKeys.active(tenantId, 'report');
    return { ...report, signature: signObject(report, complianceTyp, key) };
  } catch (cause) {
    throw new GatewayError('report.signing_unavailable', { cause });
  }
}

import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ControlPlane } from '../control-plane/client.ts';

/** A single refusal can result from a clock step; repeated refusals mean that the enrolment is missing. */
const refusalsMin = 3;

/**
 * Watches the sidecar's reports. `refused` resolves when the control plane has revoked the sidecar,
 * or repeatedly does not know it.
 */
export function noteRefusal(connected: ControlPlane): {
  readonly controlPlane: ControlPlane;
  readonly refused: Promise<void>;
} {
  const { promise: refused, resolve } = Promise.withResolvers<void>();
  let refusals = 0;
  const report: ControlPlane['report'] = async (body) => {
    try {
      const answer = await connected.report(body);
      refusals = 0;
      return answer;
    } catch (error) {
      const code = error instanceof GatewayError ? error.code : undefined;
      if (code === 'auth.sidecar_required') refusals += 1;
      if (code === 'sidecar.revoked' || refusals >= refusalsMin) resolve();
      throw error;
    }
  };
  return { controlPlane: { ...connected, report }, refused };
}

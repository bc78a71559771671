import type { Environment } from '../../shared/vocabulary/action.ts';

/**
 * The identity for which this sidecar acts. It is set at enrolment, and an agent cannot change it.
 */
export interface Identity {
  readonly sidecarId: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly environment: Environment;
}

import type { Environment } from '../../shared/vocabulary/action.ts';

/** The identity that this sidecar acts for, from its enrolment; an agent cannot change it. */
export interface Identity {
  readonly sidecarId: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly environment: Environment;
}

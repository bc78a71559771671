import type { Permission } from '../../../shared/contract/base/operation.ts';

/** The authenticated caller. Its values never come from the request's body. */
export interface Caller {
  readonly kind: 'key' | 'sidecar' | 'anonymous';
  /** Empty for anonymous callers. */
  readonly tenantId: string;
  /** Person or service of the key, or `sidecar:<id>`. */
  readonly principal: string;
  /**
   * Principals whose keys created this key, directly or through other keys (see
   * control-plane/keys). Absent for sidecars.
   */
  readonly mintedBy?: readonly string[] | undefined;
  readonly role: string;
  readonly scope: 'tenant' | 'gateway';
  readonly permissions: ReadonlySet<Permission>;
  readonly keyId?: string | undefined;
  /** Agent that the key is bound to, or the sidecar's agent. */
  readonly agentId?: string | undefined;
  readonly sidecarId?: string | undefined;
  readonly address: string;
}

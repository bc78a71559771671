import type { Permission } from '../../../shared/contract/base/operation.ts';

/** Who calls, as authentication found out; never from the request's body. */
export interface Caller {
  readonly kind: 'key' | 'sidecar' | 'anonymous';
  /** Empty for anonymous callers. */
  readonly tenantId: string;
  /** The person or service that the key stands for, or `sidecar:<id>`. */
  readonly principal: string;
  /** The principals whose keys led to this one (see control-plane/keys): absent for sidecars. */
  readonly mintedBy?: readonly string[] | undefined;
  readonly role: string;
  readonly scope: 'tenant' | 'gateway';
  readonly permissions: ReadonlySet<Permission>;
  readonly keyId?: string | undefined;
  /** A key bound to an agent, or the sidecar's agent. */
  readonly agentId?: string | undefined;
  readonly sidecarId?: string | undefined;
  readonly address: string;
}

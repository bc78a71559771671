import type { JsonObject } from '../base/json.ts';
import type { Binding } from '../binding/binding.ts';
import type { PublicJwk } from '../crypto/signing-key.ts';
import type { AgentRecord, DirectoryUser, KillSwitch } from '../decision/state.ts';
import type { ArgumentsSetting } from '../ledger/privacy/arguments-setting.ts';
import type { PublishedPolicy } from '../policy/language/published-policy.ts';
import type { Mode, RiskTier } from '../vocabulary/action.ts';
import type { Deciders } from '../vocabulary/deciders.ts';
import type { StandingGrant } from '../vocabulary/grant-terms.ts';
import type { ApprovalStatus } from '../vocabulary/tool-record.ts';

/** The sections of a tenant's state that every sidecar of the tenant loads. */
export const tenantSections = [
  'tenant',
  'policies',
  'tools',
  'agents',
  'bindings',
  'kill_switches',
  'revocations',
  'keys',
] as const;
export type TenantSection = (typeof tenantSections)[number];

/** The name of the section for one sidecar: its lease and its agent's approvals. */
export function sidecarSection(sidecarId: string): `sidecar:${string}` {
  return `sidecar:${sidecarId}`;
}
export type SectionName = TenantSection | `sidecar:${string}`;

export interface PublishedTool {
  readonly name: string;
  readonly manifestHash: string;
  readonly approvedHash?: string | undefined;
  /** Hash over the members of the approved manifest that `tools/list` shows. */
  readonly approvedSurfaceHash?: string | undefined;
  /** The same hash without the name, to recognise a renamed tool. */
  readonly approvedFormHash?: string | undefined;
  readonly approvalStatus: ApprovalStatus;
  readonly riskTier: RiskTier;
  readonly driftReason?: string | undefined;
  /** The approved `inputSchema`. */
  readonly inputSchema?: JsonObject | undefined;
}

/** An approval that one sidecar waits for or may use. */
export interface DeliveredApproval {
  readonly id: number;
  /** Digest of the action as it was requested. */
  readonly actionDigest: string;
  readonly status: 'pending' | 'approved' | 'modified' | 'denied' | 'expired';
  readonly expiresAtMs: number;
  /** `event_hash` of the decision, once decided. */
  readonly eventHash?: string | undefined;
  /** Digest of the action that may be performed: differs from `actionDigest` after `modify`. */
  readonly effectiveDigest?: string | undefined;
  /** The arguments to perform the action with, after `modify`. */
  readonly effectiveArgs?: JsonObject | undefined;
  /** Passport bound to the grant, audience `sidecar://<id>`. */
  readonly passport?: string | undefined;
  readonly used?: boolean | undefined;
  /** The deciders, once granted; compared with the rules when the grant is used. */
  readonly deciders?: Deciders | undefined;
  /** The decider's reason or question: redacted, and bounded in length. */
  readonly comment?: string | undefined;
  /**
   * A standing grant. It needs no passport: every call by the agent may use the grant if the grant
   * covers the call.
   */
  readonly grant?: StandingGrant | undefined;
}

export interface SectionBodies {
  readonly tenant: {
    readonly id: string;
    readonly name: string;
    readonly mode: Mode;
    /**
     * A number that changes whenever a credential changes. It is in this section because heartbeats
     * cover sections.
     */
    readonly credentialsVersion?: number | undefined;
    /** The setting for stored arguments, if more than digest and shape are stored. */
    readonly evidence?: ArgumentsSetting | undefined;
  };
  readonly policies: { readonly policies: readonly PublishedPolicy[] };
  readonly tools: { readonly tools: readonly PublishedTool[] };
  readonly agents: {
    readonly agents: readonly AgentRecord[];
    readonly users: readonly DirectoryUser[];
  };
  readonly bindings: { readonly bindings: readonly Binding[] };
  readonly kill_switches: { readonly killSwitches: readonly KillSwitch[] };
  readonly revocations: {
    /** Revoked jtis until their expiry; the jti of a lease covers all uses of the lease. */
    readonly jtis: readonly string[];
    readonly agentIds: readonly string[];
    readonly sidecarIds: readonly string[];
  };
  readonly keys: { readonly passportKeys: readonly PublicJwk[] };
}

export interface SidecarSectionBody {
  /** Lease passport, compact JWS, audience `sidecar://<id>`. */
  readonly lease?: string | undefined;
  readonly approvals: readonly DeliveredApproval[];
  /**
   * Changes if the credentials that the agent may use change; the sidecar then fetches them again.
   */
  readonly credentialsVersion: number;
}

/** The tenant's topic on which a sidecar requests a lease; the message is the sidecar's id. */
export const leaseTopic = 'leases';

/** A section as it is signed. `version` never decreases. */
export interface SectionEnvelope<Body = unknown> {
  readonly tenant: string;
  readonly section: string;
  readonly version: number;
  readonly body: Body;
}
export const sectionType = 'sallyport-section+jws';

/**
 * Signed proof that exactly these section versions are current. Published as section `heartbeat`.
 */
export interface Heartbeat {
  readonly tenant: string;
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly sections: Readonly<
    Record<string, { readonly version: number; readonly digest: string }>
  >;
}
export const heartbeatType = 'sallyport-heartbeat+jws';

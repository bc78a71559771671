import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { RecogniseDeps } from '../call/recognition.ts';
import type { Tracing } from '../call/tracing.ts';
import type { InternalHostDeps } from '../internal-host/internal-host.ts';
import type { StreamOpenings } from '../mcp/stream-openings.ts';
import type { DenialThrottle } from '../records/denial-throttle.ts';
import type { Credentials } from '../replica/credentials.ts';
import type { OpenedApprovals } from '../replica/opened-approvals.ts';
import type { Spool } from '../spool/spool.ts';
import type { DecisionSink } from '../telemetry/decision-log.ts';
import type { DecisionMetrics } from '../telemetry/decision-metrics.ts';
import type { TrafficMetrics } from '../telemetry/traffic-metrics.ts';
import type { Forward } from '../upstream/forwarding.ts';
import type { TunnelUpgrade } from '../upstream/websocket-tunnel.ts';
import type { CallsInFlight, StoppableCalls } from './calls-in-flight.ts';
import type { ConcurrencyLimit } from './concurrency-limit.ts';
import type { MissingCredentials } from './credential.ts';
import type { JudgeDeps } from './reach-judgement.ts';

/** The dependencies of enforcement; built in `boot/build-enforcement.ts`. */
export interface EnforceDeps extends JudgeDeps {
  readonly spool: Spool;
  readonly credentials: Credentials;
  readonly missingCredentials: MissingCredentials;
  readonly forward: Forward;
  readonly tunnelUpgrade: TunnelUpgrade;
  /** Limits concurrent tunnels of every kind. */
  readonly tunnels: ConcurrencyLimit;
  /** Limits concurrent calls that wait for a human. */
  readonly held: ConcurrencyLimit;
  /** Limits the records of denied calls; all code that denies a call consults it first. */
  readonly denials: DenialThrottle;
  readonly live: StoppableCalls;
  readonly streamOpenings: StreamOpenings;
  /** Approval requests that are being opened, by action digest. */
  readonly openingApprovals: Map<string, Promise<Pick<DeliveredApproval, 'id' | 'expiresAtMs'>>>;
  readonly openedApprovals: OpenedApprovals;
  readonly internal: InternalHostDeps;
  /** The dependencies of recognition, from the current replica. */
  readonly recognition: () => RecogniseDeps;
  readonly metrics: DecisionMetrics;
  readonly onDecision?: DecisionSink['onDecision'];
  readonly traffic: TrafficMetrics;
  /** Undefined if no collector is configured. */
  readonly tracing: Tracing | undefined;
  /** How long a call is held for a human's decision. */
  readonly holdMs: number;
  /** The longest hold that an agent may request. */
  readonly holdMsMax: number;
  /**
   * Aborted at shutdown. Held calls are then answered, and streams without an end of their own are
   * ended.
   */
  readonly stopping: AbortSignal;
  readonly callsInFlight: CallsInFlight;
}

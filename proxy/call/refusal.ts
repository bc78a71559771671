import type { JsonObject } from '../../shared/base/json.ts';
import type { RefusalDetails } from '../../shared/decision/explain.ts';
import type { Decision } from '../../shared/vocabulary/verdict.ts';
import type { RefusalForm } from './recognition.ts';

/** Why a call is refused, and what the agent can do about it. */
export interface Refusal {
  readonly form: RefusalForm;
  /** A code of `shared/errors/gateway-error.ts`, or one that a policy set. */
  readonly reasonCode: string;
  /** Default `deny`. */
  readonly decision?: Decision | undefined;
  /** The reason in a sentence. Default: the code's own text. */
  readonly message?: string | undefined;
  readonly nextSteps?: readonly string[] | undefined;
  readonly details?: RefusalDetails | JsonObject | undefined;
  readonly approvalId?: string | number | undefined;
  readonly evidenceEventId?: string | undefined;
  /**
   * Default: 202 for a pending approval, the reason code's own status for malformed calls and
   * upstream failures, 403 otherwise.
   */
  readonly status?: number | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** Additional response headers, for example `Allow` or `Proxy-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

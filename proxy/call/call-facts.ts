import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import type { Revocation } from '../replica/replica.ts';
import type { Outcome } from '../upstream/forwarding.ts';

/** The facts of a call that are recorded in addition to its verdict. */
export interface CallFacts {
  readonly tool: string;
  readonly resource: string;
  readonly host: string;
  readonly method: string;
}

/** The reason why the sidecar ends calls in flight. */
export type Stop = 'runtime.kill_switch' | Revocation;

/** How a performed call ended. */
export type CallOutcome = Omit<Outcome, 'failure'> & {
  readonly failure?: Outcome['failure'] | Stop | ErrorCode;
  /** The server name in the ClientHello of a tunnel, as sent. */
  readonly sni?: string | undefined;
  /** `none` for a call to a bound host that was sent without a stored credential. */
  readonly credential?: 'none' | undefined;
};

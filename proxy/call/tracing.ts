import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Exchange } from './exchange.ts';
import type { Recognition } from './recognition.ts';
import type { Refusal } from './refusal.ts';

/** The facts of a decision that a trace shows. */
export interface TracedDecision {
  readonly decision: string;
  readonly reasonCode: string;
  readonly enforced: boolean;
  readonly evidenceId: string | undefined;
}

/** The request to the upstream, as one span. */
export interface SentCall {
  /** Trace headers that make the upstream's spans children of this span. */
  readonly headers: Readonly<Record<string, string>>;
  ended(outcome: {
    readonly status?: number | undefined;
    readonly failure?: string | undefined;
  }): void;
}

/** The spans of one call. Spans never contain headers, arguments, resources, paths or queries. */
export interface CallTrace {
  readonly traceId: string;
  understood(recognition: Recognition): void;
  decided(decision: TracedDecision): void;
  refused(refusal: Pick<Refusal, 'form' | 'decision' | 'reasonCode'>): void;
  sent(target: Pick<Outgoing, 'scheme' | 'host' | 'port' | 'method'>): SentCall;
  /** Called when the response was sent or the connection closed. */
  ended(exchange: Pick<Exchange, 'res'>): void;
}

export interface Tracing {
  begin(exchange: Exchange): CallTrace;
  /** Exports the remaining spans, and gives up after a short time. */
  close(): Promise<void>;
}

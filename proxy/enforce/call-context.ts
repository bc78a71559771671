import type { CallFacts } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RefusalForm } from '../call/recognition.ts';
import type { CallTrace } from '../call/tracing.ts';
import type { EnforceDeps } from './deps.ts';

/** How far a request got, so that whatever goes wrong is refused and recorded as what it is. */
export interface Progress {
  readonly form: RefusalForm;
  readonly facts: CallFacts;
  /** Id of the decision's event, once it is written down. */
  readonly evidenceId: string | undefined;
}

export interface CallContext {
  readonly deps: EnforceDeps;
  readonly advance: (step: Partial<Progress>) => void;
  /** Undefined where tracing is off. */
  readonly trace: CallTrace | undefined;
  /** Since when the sidecar has worked on this step, on the monotonic clock. */
  readonly sinceMs: number;
  /** What is known of the call so far, for its refusal. */
  readonly facts?: (() => CallFacts) | undefined;
}

export function factsOf(
  exchange: Exchange,
  { tool, resource }: { readonly tool: string; readonly resource: string },
): CallFacts {
  return {
    tool,
    resource: withoutQuery(resource),
    host: `${exchange.host}:${exchange.port}`,
    method: exchange.method,
  };
}

/** Queries of calls that were not understood may hold anything, secrets included. */
function withoutQuery(resource: string): string {
  return resource.split('?')[0] ?? '';
}

export function decisionHeader(
  decision: string,
  reasonCode: string,
  evidenceId: string,
): Record<string, string> {
  const reason = reasonCode.replaceAll(/[^\x21-\x7e]/g, '_');
  return { 'Sallyport-Decision': `${decision}; reason=${reason}; evidence=${evidenceId}` };
}

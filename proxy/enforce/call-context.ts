import { splitTarget } from '../../shared/binding/path.ts';
import type { CallFacts } from '../call/call-facts.ts';
import type { Exchange } from '../call/exchange.ts';
import type { Recognition, RefusalForm } from '../call/recognition.ts';
import type { CallTrace } from '../call/tracing.ts';
import type { EnforceDeps } from './deps.ts';

/**
 * One request of the agent and its state. Each stage stores its results here, so that a failure is
 * refused in the right form and recorded under the right names.
 */
export class CallContext {
  readonly exchange: Exchange;
  readonly deps: EnforceDeps;
  /** Undefined while tracing is off. */
  readonly trace: CallTrace | undefined;
  form: RefusalForm = { kind: 'http' };
  facts: CallFacts;
  /** Id of the decision's event; set when the decision is recorded. */
  evidenceId: string | undefined;
  /** Start of the current decision, on the monotonic clock. */
  sinceMs = 0;

  constructor(exchange: Exchange, deps: EnforceDeps) {
    this.exchange = exchange;
    this.deps = deps;
    this.trace = deps.tracing?.begin(exchange);
    this.facts = factsOf(exchange, {
      tool: `http.${exchange.method.toLowerCase()}.${exchange.host}`,
      resource: splitTarget(exchange.target).path,
    });
  }

  understood(recognition: Recognition): void {
    this.form = recognition.form;
    this.trace?.understood(recognition);
    this.sinceMs = this.deps.clock.monotonic();
  }
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

/**
 * Removes the query from the resource of a call that was not recognised, because a query may
 * contain secrets.
 */
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

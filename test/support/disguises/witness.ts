import { expect } from 'vitest';
import { until } from '../programs/processes.ts';
import type { LiveStage } from './live-stage.ts';
import type { Conversation } from './wire.ts';

/** Reasons with which the ingress refuses a request before there is a call to record. */
const beforeAnyCall: ReadonlySet<string> = new Set([
  'proxy.request_invalid',
  'proxy.host_mismatch',
  'proxy.headers_too_large',
  'proxy.address_refused',
  'proxy.upgrade_refused',
]);

/**
 * Remembers the reason and the event id of each refusal, to compare them with the ledger at the
 * end.
 */
export class Witness {
  readonly #recorded = new Map<string, string>();

  /**
   * Expects that all requests were refused, and the first one for one of these reasons. If there
   * was no response, `closed` must be one of the reasons.
   */
  refused({ answers, rest }: Conversation, reasons: readonly string[]): void {
    expect(rest).toBe('');
    for (const [index, answer] of answers.entries()) {
      const reason = /"reason_code":"([^"]+)"/.exec(answer.body)?.[1] ?? 'closed';
      const isInBand = answer.status === 200 && /"(?:isError":true|error":\{)/.test(answer.body);
      expect(isInBand || (answer.status >= 400 && answer.status < 500), answer.body).toBe(true);
      // The response to a HEAD request has no body, and so no reason.
      if (answer.body === '') continue;
      if (index === 0) expect(reasons).toContain(reason);
      this.#remember(reason, answer.body);
    }
    if (answers.length === 0) expect(reasons).toContain('closed');
  }

  #remember(reason: string, body: string): void {
    const id = /"evidence_event_id":"([^"]+)"/.exec(body)?.[1];
    if (id !== undefined) this.#recorded.set(id, reason);
    // Every conversation ends with TRACE, which is refused with this reason.
    else if (reason !== 'proxy.method_refused') expect([...beforeAnyCall]).toContain(reason);
  }

  get recorded(): number {
    return this.#recorded.size;
  }

  /**
   * Expects that the ledger contains every refusal whose response had an event id, with the reason
   * in the response.
   */
  async agreesWithLedger(stage: LiveStage): Promise<void> {
    let sealed: ReadonlyMap<string, string> = new Map();
    await until('all refusals are sealed', async () => {
      sealed = await stage.reasons();
      return [...this.#recorded.keys()].every((id) => sealed.has(id));
    });
    const found = [...this.#recorded.keys()].map((id) => [id, sealed.get(id)]);
    expect(found).toEqual([...this.#recorded]);
    expect([...sealed.values()]).not.toContain('internal.unexpected');
  }
}

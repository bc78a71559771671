import { expect } from 'vitest';
import { until } from '../programs/processes.ts';
import type { LiveStage } from './live-stage.ts';
import type { Conversation } from './wire.ts';

/** What the ingress refuses before there is a call that evidence could be about. */
const beforeAnyCall: ReadonlySet<string> = new Set([
  'proxy.request_invalid',
  'proxy.host_mismatch',
  'proxy.headers_too_large',
  'proxy.address_refused',
  'proxy.upgrade_refused',
]);

/** Keeps what refusals said, to hold it against the ledger in the end. */
export class Witness {
  readonly #recorded = new Map<string, string>();

  /** Holds that all was refused, the first for one of these reasons; none: the connection closed. */
  refused({ answers, rest }: Conversation, reasons: readonly string[]): void {
    expect(rest).toBe('');
    for (const [index, answer] of answers.entries()) {
      const reason = /"reason_code":"([^"]+)"/.exec(answer.body)?.[1] ?? 'closed';
      const isInBand = answer.status === 200 && /"(?:isError":true|error":\{)/.test(answer.body);
      expect(isInBand || (answer.status >= 400 && answer.status < 500), answer.body).toBe(true);
      // An answer to HEAD has no body to say why.
      if (answer.body === '') continue;
      if (index === 0) expect(reasons).toContain(reason);
      this.#remember(reason, answer.body);
    }
    if (answers.length === 0) expect(reasons).toContain('closed');
  }

  #remember(reason: string, body: string): void {
    const id = /"evidence_event_id":"([^"]+)"/.exec(body)?.[1];
    if (id !== undefined) this.#recorded.set(id, reason);
    // TRACE ends every conversation.
    else if (reason !== 'proxy.method_refused') expect([...beforeAnyCall]).toContain(reason);
  }

  get recorded(): number {
    return this.#recorded.size;
  }

  /** Holds that every refusal that named its event is in the ledger, for the reason it gave. */
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

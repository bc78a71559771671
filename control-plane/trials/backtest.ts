import type { BacktestReport, BacktestRequest } from '../../shared/contract/policies/trials.ts';
import {
  compileUncertainInSteps,
  type UncertainPolicies,
} from '../../shared/policy/uncertain/uncertain-policies.ts';
import type { Services } from '../core/services.ts';
import { readCursor, writeCursor } from '../ledger/reading/cursor.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import { decisionPages, type SealedDecision } from './decision-pages.ts';
import { isDecision, type Rejudged, rejudge } from './rejudge.ts';
import { trialPolicies } from './trial-policies.ts';

/**
 * After this time, the response states the position that was reached, and the caller can continue
 * from there.
 */
const budgetMs = 10_000;
const changesShown = 500;
const unknownsShown = 50;
const rulesShown = 100;

/** Judges stored decisions again with a candidate policy, and reports the differences. */
export async function backtest(
  services: Pick<Services, 'db' | 'pool' | 'vault' | 'clock' | 'guard'>,
  tenantId: string,
  { policy, beside, from, to, limit, cursor }: BacktestRequest,
): Promise<BacktestReport> {
  const { pool, vault, clock } = services;
  const after = cursor === undefined ? 0 : readCursor(vault, tenantId, cursor).position;
  const pause = pauser(clock);
  const trial = { candidates: [policy], beside };
  const published = await trialPolicies(services, tenantId, { trial, pause });
  const tally = new Tally(await runWithPauses(compileUncertainInSteps(published), pause));
  const endsAt = clock.monotonic() + budgetMs;
  const isOver = () => tally.examined >= limit || clock.monotonic() >= endsAt;
  let done = after;
  for await (const { decisions, upTo } of decisionPages(pool, tenantId, { from, to, after })) {
    for (const event of decisions) {
      if (tally.examined > 0 && isOver()) return tally.report(cursorAt(done));
      measureWork(() => tally.add(event));
      done = event.position;
      await pause();
    }
    done = upTo;
    if (clock.monotonic() >= endsAt) return tally.report(cursorAt(done));
  }
  return tally.report(null);

  function cursorAt(position: number): string {
    return writeCursor(vault, tenantId, { position, chainId: '', seq: 0 });
  }
}

/** Counts the results. The number of examples that it lists is limited. */
class Tally {
  readonly #policies: UncertainPolicies;
  readonly #counts = new Map<string, number>();
  readonly #changes: BacktestReport['changes'][number][] = [];
  readonly #unknowns: BacktestReport['unknowns'][number][] = [];
  #changed = 0;
  #unknown = 0;
  #notByPolicy = 0;
  examined = 0;

  constructor(policies: UncertainPolicies) {
    this.#policies = policies;
  }

  add(event: SealedDecision): void {
    this.examined += 1;
    const judged = rejudge(event, this.#policies);
    if (judged === undefined) this.#notByPolicy += 1;
    else if (judged.decision === 'unknown') this.#addUnknown(event, judged);
    else if (judged.decision !== event.decision) this.#addChange(event, judged);
  }

  #addUnknown({ id, tool }: SealedDecision, { unsureRules }: Rejudged): void {
    this.#unknown += 1;
    if (this.#unknowns.length >= unknownsShown) return;
    this.#unknowns.push({
      event_id: id,
      tool: tool ?? '',
      unsure_rules: unsureRules.slice(0, rulesShown),
    });
  }

  #addChange(event: SealedDecision, judged: Rejudged): void {
    const { decision: before } = event;
    if (!isDecision(before) || judged.decision === 'unknown') return;
    this.#changed += 1;
    const kind = `${before}→${judged.decision}`;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    if (this.#changes.length >= changesShown) return;
    this.#changes.push({
      event_id: event.id,
      occurred_at: event.occurred_at,
      tool: event.tool ?? '',
      agent_id: event.agent_id ?? '',
      old: before,
      new: judged.decision,
      old_reason_code: event.reason_code ?? '',
      reason_code: judged.reasonCode ?? null,
      matched_rules: judged.matchedRules.slice(0, rulesShown),
    });
  }

  report(nextCursor: string | null): BacktestReport {
    return {
      examined: this.examined,
      changed: this.#changed,
      unknown: this.#unknown,
      not_by_policy: this.#notByPolicy,
      counts: Object.fromEntries([...this.#counts].sort()),
      changes: this.#changes,
      unknowns: this.#unknowns,
      next_cursor: nextCursor,
    };
  }
}

import type { Log } from '../../shared/base/log.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { Replica } from '../replica/replica.ts';
import type { Spool } from '../spool/spool.ts';
import type { DecisionMetrics } from './decision-metrics.ts';

const everyMs = 10_000;
/** Changes arrive in bursts, which one report can cover. */
const afterChangeMs = 100;
/** An operator may be waiting for the confirmation of a kill switch. */
const afterKillSwitchMs = 0;
/** A failed report is repeated soon, because changes are unconfirmed until then. */
const afterFailureMs = 1_000;

interface ReportsOptions {
  readonly replica: Replica;
  readonly spool: Pick<Spool, 'depth' | 'written'>;
  readonly metrics: Pick<DecisionMetrics, 'last'>;
  readonly controlPlane: Pick<ControlPlane, 'report'>;
  /**
   * Called with the id of the key that currently signs sections, as the control plane reports it.
   */
  readonly onSectionKey: (kid: string) => void;
  readonly version: string;
  readonly log: Log;
}

/** Reports this sidecar's state to the control plane: periodically, and soon after every change. */
export function startReports(options: ReportsOptions): { close(): void } {
  const { replica, controlPlane, onSectionKey, log } = options;
  let timer: NodeJS.Timeout | undefined;
  let dueAtMs = Number.POSITIVE_INFINITY;
  let isSending = false;
  let changedInMs: number | undefined;
  let isClosed = false;
  /**
   * A change never postpones a report that is already scheduled, so endless changes cannot prevent
   * reports.
   */
  const plan = (inMs: number) => {
    const atMs = performance.now() + inMs;
    if (isClosed || atMs >= dueAtMs) return;
    clearTimeout(timer);
    dueAtMs = atMs;
    timer = setTimeout(send, inMs);
    timer.unref();
  };
  const changed = (inMs: number) => {
    if (isSending) changedInMs = Math.min(changedInMs ?? inMs, inMs);
    else plan(inMs);
  };
  const send = () => {
    isSending = true;
    changedInMs = undefined;
    let nextMs = everyMs;
    // The next report waits for this response, so that an older report never arrives after a newer
    // one.
    controlPlane
      .report(reportOf(options))
      .then(onSectionKey)
      .catch((err) => {
        nextMs = afterFailureMs;
        log.debug({ err }, 'the report was not taken');
      })
      .finally(() => {
        isSending = false;
        dueAtMs = Number.POSITIVE_INFINITY;
        plan(changedInMs ?? nextMs);
      });
  };
  const unsubscribe = tenantSections.map((section) =>
    replica.onChange(section, () =>
      changed(section === 'kill_switches' ? afterKillSwitchMs : afterChangeMs),
    ),
  );
  plan(0);
  return {
    close() {
      isClosed = true;
      clearTimeout(timer);
      for (const stop of unsubscribe) stop();
    },
  };
}

const reasonCharsMax = 256;

function reportOf({ replica, spool, metrics, version }: ReportsOptions) {
  const last = metrics.last();
  return {
    versions: { ...replica.versions() },
    age_ms: Math.round(replica.freshness().ageMs),
    spool_depth: spool.depth,
    spool_written: spool.written.record,
    version,
    ...(last === undefined
      ? {}
      : {
          last_decision_at: new Date(last.atMs).toISOString(),
          last_decision: {
            decision: last.decision,
            reason_code: last.reasonCode.slice(0, reasonCharsMax),
          },
        }),
  };
}

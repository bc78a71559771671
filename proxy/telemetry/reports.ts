import type { Log } from '../../shared/log.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { ControlPlane } from '../control-plane.ts';
import type { Spool } from '../evidence/spool.ts';
import type { Replica } from '../replica/replica.ts';
import type { DecisionMetrics } from './decision-metrics.ts';

const everyMs = 10_000;
/** Changes come in bursts; one report tells of them all. */
const afterChangeMs = 100;

interface ReportsOptions {
  readonly replica: Replica;
  readonly spool: Pick<Spool, 'depth' | 'written'>;
  readonly metrics: Pick<DecisionMetrics, 'last'>;
  readonly controlPlane: Pick<ControlPlane, 'report'>;
  /** Told which key signs sections now, whatever the bus shows. */
  readonly onSectionKey: (kid: string) => void;
  readonly version: string;
  readonly log: Log;
}

/** Tells the control plane what this sidecar holds: now and then, and soon after every change. */
export function startReports(options: ReportsOptions): { close(): void } {
  const { replica, controlPlane, onSectionKey, log } = options;
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let isChanged = false;
  let isClosed = false;
  const plan = (inMs: number) => {
    isChanged = isSending;
    if (isSending) return;
    clearTimeout(timer);
    timer = setTimeout(send, inMs);
    timer.unref();
  };
  const send = () => {
    isSending = true;
    isChanged = false;
    // The next one waits for its answer: an older one must not arrive after it.
    controlPlane
      .report(reportOf(options))
      .then(onSectionKey)
      .catch((err) => log.debug({ err }, 'the report was not taken'))
      .finally(() => {
        isSending = false;
        if (!isClosed) plan(isChanged ? afterChangeMs : everyMs);
      });
  };
  const unsubscribe = tenantSections.map((section) =>
    replica.onChange(section, () => plan(afterChangeMs)),
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

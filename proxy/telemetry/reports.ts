import type { Log } from '../../shared/log.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { ControlPlane } from '../control-plane.ts';
import type { Replica } from '../replica/replica.ts';

const everyMs = 10_000;
/** Changes come in bursts; one report tells of them all. */
const afterChangeMs = 100;

interface ReportsOptions {
  readonly replica: Replica;
  readonly spool: { readonly depth: number };
  readonly controlPlane: Pick<ControlPlane, 'report'>;
  /** Told which key signs sections now, whatever the bus shows. */
  readonly onSectionKey: (kid: string) => void;
  readonly version: string;
  readonly log: Log;
}

/** Tells the control plane what this sidecar holds: now and then, and soon after every change. */
export function startReports({
  replica,
  spool,
  controlPlane,
  onSectionKey,
  version,
  log,
}: ReportsOptions): {
  close(): void;
} {
  let timer: NodeJS.Timeout | undefined;
  const plan = (inMs: number) => {
    clearTimeout(timer);
    timer = setTimeout(send, inMs);
    timer.unref();
  };
  const send = () => {
    const report = {
      versions: { ...replica.versions() },
      age_ms: Math.round(replica.freshness().ageMs),
      spool_depth: spool.depth,
      version,
    };
    controlPlane
      .report(report)
      .then(onSectionKey)
      .catch((err) => log.debug({ err }, 'the report was not taken'));
    plan(everyMs);
  };
  const unsubscribe = tenantSections.map((section) =>
    replica.onChange(section, () => plan(afterChangeMs)),
  );
  plan(0);
  return {
    close() {
      clearTimeout(timer);
      for (const stop of unsubscribe) stop();
    },
  };
}

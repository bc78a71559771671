import type { Registry } from 'prom-client';
import type { Clock } from '../../shared/base/clock.ts';
import { counter, gauge } from '../../shared/base/observed-metric.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { segmentsIn } from '../spool/segment.ts';

interface Evidence {
  readonly spool: { readonly depth: number; readonly folder: string };
  readonly uploader: { readonly failures: number; readonly oldestUnsent: string | undefined };
  readonly disk: { freeBytes(): Promise<number> };
  readonly bytesMax: number;
  readonly clock: Clock;
}

/** Registers the metrics of the evidence that waits for upload on this disk: its amount and age. */
export function createEvidenceMetrics(registry: Registry, evidence: Evidence): void {
  const { spool, uploader, disk, bytesMax, clock } = evidence;
  gauge(
    registry,
    {
      name: 'sallyport_spool_records',
      help: 'Evidence records not yet sealed by the control plane',
    },
    () => spool.depth,
  );
  gauge(
    registry,
    { name: 'sallyport_spool_bytes', help: 'Bytes of the evidence spool on disk' },
    () => bytesIn(spool.folder),
  );
  gauge(
    registry,
    {
      name: 'sallyport_spool_free_bytes',
      help: 'Bytes that are free on the volume of the evidence spool; calls are denied when it is full',
    },
    () => disk.freeBytes(),
  );
  gauge(
    registry,
    { name: 'sallyport_spool_max_bytes', help: 'Beyond this many bytes calls are denied' },
    () => bytesMax,
  );
  gauge(
    registry,
    {
      name: 'sallyport_spool_oldest_record_age_seconds',
      help: 'Age of the oldest record that is being uploaded or could not be; 0 when there is none',
    },
    () => ageSeconds(uploader.oldestUnsent, clock),
  );
  counter(
    registry,
    {
      name: 'sallyport_evidence_upload_failures_total',
      help: 'Uploads of evidence that failed; each is tried again',
    },
    () => uploader.failures,
  );
}

/**
 * Returns the size of all segments; NaN if the folder is unreadable, so that the other metrics are
 * still reported.
 */
function bytesIn(folder: string): number {
  try {
    return segmentsIn(folder).reduce((sum, { bytes }) => sum + bytes, 0);
  } catch {
    return Number.NaN;
  }
}

function ageSeconds(line: string | undefined, clock: Clock): number {
  if (line === undefined) return 0;
  const { event } = JSON.parse(line) as { readonly event: EvidenceEvent };
  return Math.max(0, (clock.now() - Date.parse(event.occurred_at)) / 1000);
}

import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { Services } from '../core/services.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { applyObservedDrift } from '../tools/apply-observed-drift.ts';

interface EvidenceConsumer {
  /** Type of the events that this consumer receives. */
  readonly type: EvidenceEvent['type'];
  /**
   * Called when the event is sealed, and again if the sidecar uploads it again, so a repeat must
   * change nothing. Commits its own transaction.
   */
  readonly consume: (
    services: Services,
    sidecar: Verified<Sidecar>,
    event: EvidenceEvent,
  ) => Promise<void>;
}

/**
 * All consumers of sealed events of sidecars. Budgets are not listed, because the sealer counts
 * them in the statement that seals (`../ledger/sealing/write-batch.ts`), so that a sealed call is
 * never missing from a budget. Incidents are not listed, because they concern the upload, and no
 * event reports them.
 */
const evidenceConsumers: readonly EvidenceConsumer[] = [
  // Marks the tool, and opens an approval for its observed form.
  { type: 'tool.drifted', consume: applyObservedDrift },
];

/** Calls the consumers of each event, in the order of the events. Throws if one fails. */
export async function consumeSealed(
  services: Services,
  sidecar: Verified<Sidecar>,
  events: readonly EvidenceEvent[],
): Promise<void> {
  for (const event of events) {
    for (const { type, consume } of evidenceConsumers) {
      if (event.type === type) await consume(services, sidecar, event);
    }
  }
}

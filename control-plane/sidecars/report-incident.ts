import type { JsonObject } from '../../shared/base/json.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { deduplicatedEventId, isUnrecorded } from '../ledger/sealing/event-deduplication.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

/** Types of incidents of a sidecar's evidence, which are sealed on the sidecar's own chain. */
export const evidenceIncidents = [
  /** A batch or an acknowledgement has no valid signature. */
  'sidecar.evidence_refused',
  /** Records were never uploaded. */
  'sidecar.evidence_gap',
  /** Fewer records than before, or different records under the same numbers. */
  'sidecar.evidence_rewound',
  /** The ledger cannot accept a record as the event that it claims to be. */
  'sidecar.evidence_put_aside',
] as const;

const onceMs = 24 * 60 * 60_000;

/** Seals an incident of a sidecar's evidence, once a day per case, because a sidecar retries. */
export async function reportIncident(
  services: Services,
  { tenantId, id, agentId }: Pick<Sidecar, 'tenantId' | 'id' | 'agentId'>,
  incident: {
    readonly type: (typeof evidenceIncidents)[number];
    readonly key: string;
    readonly data: JsonObject;
  },
): Promise<void> {
  const { clock, log, vault } = services;
  const { type, key, data } = incident;
  log.error({ sidecar: id, type, ...data }, 'a sidecar’s evidence is not in order');
  const day = Math.floor(clock.now() / onceMs);
  const eventId = deduplicatedEventId(vault, {
    tenantId,
    about: `incident ${id} ${day} ${type} ${key}`,
  });
  await commitChange(services, tenantId, async (tx, notes) => {
    if (!(await isUnrecorded(tx, tenantId, eventId))) return;
    const fields = { type, chainId: `sidecar:${id}`, agentId, data: { ...data, sidecar_id: id } };
    await notes.event({ ...fields, id: eventId });
  });
}

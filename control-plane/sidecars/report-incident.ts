import { hash } from 'node:crypto';
import type { JsonObject } from '../../shared/base/json.ts';
import type { Services } from '../core/services.ts';
import { newEvent } from '../ledger/sealing/new-event.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

/** What can be wrong with a sidecar's evidence, as events on its own chain. */
export const evidenceIncidents = [
  /** A batch was not the one that the sidecar signed. */
  'sidecar.evidence_refused',
  /** Records were never uploaded. */
  'sidecar.evidence_gap',
  /** Other records than before stand under the same numbers, or fewer. */
  'sidecar.evidence_rewound',
  /** A record that the ledger cannot take as what it says. */
  'sidecar.evidence_put_aside',
] as const;

const onceMs = 24 * 60 * 60_000;

/**
 * Seals that something is wrong with a sidecar's evidence: once per case, for a sidecar tries
 * again. Where it cannot be told whether it was reported, it is reported again.
 */
export async function reportIncident(
  { bus, clock, ledger, log }: Services,
  { tenantId, id, agentId }: Sidecar,
  incident: {
    readonly type: (typeof evidenceIncidents)[number];
    readonly key: string;
    readonly data: JsonObject;
  },
): Promise<void> {
  const { type, key, data } = incident;
  log.error({ sidecar: id, type, ...data }, 'a sidecar’s evidence is not in order');
  const name = `incident:${id}:${hash('sha256', `${type} ${key}`, 'hex')}`;
  const first = await bus.claim(tenantId, name, onceMs).catch(() => ({ status: 'claimed' }));
  if (first.status === 'taken') return;
  const event = newEvent(
    { type, chainId: `sidecar:${id}`, agentId, data: { ...data, sidecar_id: id } },
    clock,
  );
  await ledger.seal(tenantId, event);
}

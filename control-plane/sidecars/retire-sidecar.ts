import { sidecarSection } from '../../shared/sync/sections.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Unverified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

/**
 * Why a sidecar was revoked: by an operator, because its pod enrolled again (`replaced`), because
 * its enrolment rule changed, or because it had not reported for too long (`unseen`).
 */
export type RevocationReason = 'operator' | 'replaced' | 'rule' | 'unseen';

interface Retirement {
  readonly at: Date;
  readonly reason: RevocationReason;
  /** Recorded in the event. */
  readonly by: string;
}

/**
 * Revokes a sidecar, its tokens, lease and grants, and records the event, all in the caller's
 * transaction. Returns undefined if the sidecar was revoked before.
 */
export async function retireSidecar(
  notes: ChangeNotes,
  row: Unverified<Sidecar>,
  { at, reason, by }: Retirement,
): Promise<Sidecar | undefined> {
  const changes = { revokedAt: at, revokedFor: reason };
  const retiring = { changes, forged: 'sign' } as const;
  const revoked = await notes.rows('sidecar').retire(row, { revokedAt: null }, retiring);
  if (revoked === undefined) return undefined;
  const { id, agentId } = revoked;
  notes.sections('revocations', sidecarSection(id));
  await notes.event({
    type: 'sidecar.revoked',
    chainId: `sidecar:${id}`,
    agentId,
    data: { by, reason, rule: revoked.ruleName ?? undefined, sidecar_id: id },
  });
  return revoked;
}

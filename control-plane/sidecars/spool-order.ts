import type { SpoolHead } from '../../shared/ledger/spool-head.ts';
import type { Services } from '../core/services.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { reportIncident } from './report-incident.ts';

/**
 * Compares the position of records with the sidecar's earlier uploads, and reports missing records
 * and a rolled-back spool. Returns whether the spool was rolled back.
 */
export async function checkSpoolOrder(
  services: Services,
  sidecar: Verified<Sidecar>,
  { after, keys }: Pick<SpoolHead, 'after'> & { readonly keys: readonly string[] },
): Promise<{ readonly isRewound: boolean }> {
  const acked = Number(sidecar.ackedRecord);
  if (after.record < acked) {
    return { isRewound: await checkRewound(services, sidecar, { after, keys }) };
  }
  const isSameSpool = after.record !== acked || acked === 0 || after.hash === sidecar.ackedSegment;
  if (after.record > acked || !isSameSpool) {
    await reportIncident(services, sidecar, {
      type: 'sidecar.evidence_gap',
      key: `${after.record} ${after.hash}`,
      data: {
        acked_record: acked,
        next_record: after.record + 1,
        problem: isSameSpool ? 'records were never uploaded' : 'the records follow others',
      },
    });
  }
  return { isRewound: false };
}

/**
 * Repeated records must already be in the ledger. Different records under the same numbers come
 * from a different spool.
 */
async function checkRewound(
  services: Services,
  sidecar: Verified<Sidecar>,
  { after, keys }: Pick<SpoolHead, 'after'> & { readonly keys: readonly string[] },
): Promise<boolean> {
  const acked = Number(sidecar.ackedRecord);
  const again = [...new Set(keys.slice(0, acked - after.record))];
  const known = await services.db.evidenceRow.count({
    where: { tenantId: sidecar.tenantId, eventId: { in: again } },
  });
  if (known === again.length) return false;
  await reportIncident(services, sidecar, {
    type: 'sidecar.evidence_rewound',
    key: `${acked} ${after.record} ${after.hash} ${again[0]}`,
    data: {
      acked_record: acked,
      next_record: after.record + 1,
      problem: 'the spool was wound back: records may be missing',
    },
  });
  return true;
}

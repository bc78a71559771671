import { verificationKeys } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { verifyHead } from '../../shared/ledger/head.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { Services } from '../core/services.ts';
import { headPosition } from '../ledger/reading/read-ledger.ts';
import { reportLoss } from '../ledger/verification/report-loss.ts';
import { readVerification } from '../ledger/verification/verification-state.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { reportIncident } from './report-incident.ts';

/** Signed head of the ledger, which the sidecar presents with its next upload. */
export async function acknowledgement(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
): Promise<LedgerAcknowledgement | undefined> {
  const { rows } = await pool.query<{ position: string; tree_root: string; jws: string }>(
    `SELECT position, tree_root, jws FROM evidence_batch WHERE tenant_id = $1
      ORDER BY position DESC LIMIT 1`,
    [tenantId],
  );
  const [row] = rows;
  return row && { position: Number(row.position), tree_root: row.tree_root, jws: row.jws };
}

/**
 * Throws if the ledger no longer contains the position that it acknowledged to this sidecar,
 * because more uploads would hide the loss. A loss that an operator accepted is only reported.
 */
export async function assertKept(
  services: Services,
  sidecar: Verified<Sidecar>,
  shown: LedgerAcknowledgement,
): Promise<void> {
  if (await isKept(services, sidecar.tenantId, shown)) return;
  const { acceptedPosition } = await readVerification(services, sidecar.tenantId);
  if (await isGenuine(services, sidecar.tenantId, shown)) {
    await reportLoss(services, sidecar.tenantId, {
      position: shown.position,
      treeRoot: shown.tree_root,
      ledgerPosition: await headPosition(services.pool, sidecar.tenantId),
      observation: 'a sidecar was told',
      data: { sidecar_id: sidecar.id },
    });
  } else {
    // An acknowledgement without a valid signature raises no alert: it may be forged, or its
    // signing key was deleted.
    await reportIncident(services, sidecar, {
      type: 'sidecar.evidence_refused',
      key: 'acknowledgement',
      data: { problem: 'what it shows as acknowledged was signed by no key of the tenant' },
    });
  }
  if (shown.position > acceptedPosition) throw new GatewayError('evidence.rolled_back');
}

async function isKept(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
  { position, tree_root: treeRoot }: LedgerAcknowledgement,
): Promise<boolean> {
  const { rows } = await pool.query(
    'SELECT 1 FROM evidence_batch WHERE tenant_id = $1 AND position = $2 AND tree_root = $3',
    [tenantId, position, treeRoot],
  );
  return rows.length === 1;
}

async function isGenuine(
  { signingKeys }: Pick<Services, 'signingKeys'>,
  tenant: string,
  { jws, ...head }: LedgerAcknowledgement,
): Promise<boolean> {
  const keys = await signingKeys.publicKeys(tenant, 'checkpoint');
  return verifyHead({ tenant, ...head }, jws, verificationKeys(keys));
}

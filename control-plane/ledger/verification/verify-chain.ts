import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type {
  Checkpoint,
  VerifiedUpTo,
} from '../../../shared/ledger/verification/ledger-source.ts';
import type { Problem, VerificationReport } from '../../../shared/ledger/verification/problem.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { raiseAlarm } from './alarm.ts';
import { readCheckpoint } from './read-checkpoint.ts';
import { changeVerification, readVerification } from './verification-state.ts';
import { verifyRows } from './verify-rows.ts';

interface Wanted {
  /** Checkpoint that was kept outside this installation, as a signed note. */
  readonly checkpoint?: string | undefined;
  readonly isPatient?: boolean | undefined;
}

/**
 * Verifies a tenant's whole ledger from its canonical texts. Seals a failure as
 * `chain_verification_failed` and queues a notification. Returns the report even if sealing or
 * queueing fails.
 */
export async function verifyChain(
  services: LedgerServices,
  tenantId: string,
  { checkpoint, isPatient }: Wanted = {},
): Promise<VerificationReport> {
  const { upTo: known } = await readVerification(services, tenantId);
  const checkpoints = known.tree.size === 0 ? [] : [checkpointOf(known)];
  if (checkpoint !== undefined) checkpoints.push(await genuine(services, tenantId, checkpoint));
  const { report, upTo } = await verifyRows(services, { tenantId, checkpoints, isPatient });
  if (report.problem !== null) await reportFailure(services, tenantId, report);
  await noteVerified(services, tenantId, { upTo, problem: report.problem, isWhole: true });
  return report;
}

/** Verifies the whole ledger, and records nothing. */
export async function verifyStored(
  services: Pick<LedgerServices, 'pool' | 'signingKeys'>,
  tenantId: string,
): Promise<VerificationReport> {
  return (await verifyRows(services, { tenantId })).report;
}

/**
 * Returns the end of the last verification. The ledger must still contain it. A MAC proves that the
 * control plane stored it.
 */
function checkpointOf({ tree }: VerifiedUpTo): Checkpoint {
  return { position: tree.size, treeRoot: `sha256:${tree.root().toString('hex')}` };
}

export async function reportFailure(
  services: LedgerServices,
  tenantId: string,
  { problem, problems, events }: VerificationReport,
): Promise<void> {
  if (problem === null) return;
  await raiseAlarm(services, tenantId, {
    type: 'chain_verification_failed',
    key: `${problem.kind} ${problem.position} ${problem.chain_id}`,
    data: { events, problem: { ...problem }, problems: problems.length },
  });
}

interface Verified {
  readonly upTo: VerifiedUpTo | undefined;
  readonly problem: Problem | null;
  readonly isWhole: boolean;
}

/** Stores how far the ledger was verified, so that the next verification can start there. */
export async function noteVerified(
  services: Pick<LedgerServices, 'db' | 'vault' | 'log' | 'clock'>,
  tenantId: string,
  { upTo, problem, isWhole }: Verified,
): Promise<void> {
  const nowMs = services.clock.now();
  try {
    await changeVerification(services, tenantId, (before) => ({
      ...before,
      verifiedAtMs: nowMs,
      wholeAtMs: isWhole ? nowMs : before.wholeAtMs,
      problem: isWhole ? problem : (problem ?? before.problem),
      upTo: problem === null && upTo !== undefined ? upTo : before.upTo,
    }));
  } catch (error) {
    services.log.warn(
      { err: error, tenantId },
      'how far the ledger was verified could not be kept',
    );
  }
}

/**
 * Reads a checkpoint. Throws for a note that no key of this tenant signed. Such a note proves
 * nothing about the ledger, so it must not raise an alarm.
 */
async function genuine(
  { signingKeys }: Pick<LedgerServices, 'signingKeys'>,
  tenantId: string,
  note: string,
): Promise<Checkpoint> {
  const keys = await signingKeys.publicKeys(tenantId, 'checkpoint');
  const checkpoint = readCheckpoint(note, { tenantId, keys });
  if (checkpoint === undefined) throw new GatewayError('evidence.checkpoint_invalid');
  return checkpoint;
}

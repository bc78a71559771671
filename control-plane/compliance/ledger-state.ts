import type { JsonObject } from '../../shared/base/json.ts';
import type { VerificationReport } from '../../shared/ledger/verification/problem.ts';
import type { Services } from '../core/services.ts';
import { headPosition } from '../ledger/reading/read-ledger.ts';
import {
  readVerification,
  type VerificationState,
} from '../ledger/verification/verification-state.ts';
import { reportFailure, verifyChain } from '../ledger/verification/verify-chain.ts';
import { verifyRows } from '../ledger/verification/verify-rows.ts';
import type { Finding } from './control.ts';

/**
 * Maximum of rows that a report verifies while its caller waits; verifying them takes about a
 * second.
 */
export const rowsMaxByDefault = 20_000;
const hourMs = 3_600_000;

interface LedgerState {
  readonly length: number;
  readonly evidence: JsonObject;
  readonly findings: readonly Finding[];
}

/**
 * Verifies a short ledger completely. Verifies a long ledger only beyond the position that the last
 * scheduled verification reached; that verification must be recent.
 */
export async function ledgerState(
  services: Services,
  tenantId: string,
  rowsMax = rowsMaxByDefault,
): Promise<LedgerState> {
  const length = await headPosition(services.pool, tenantId);
  const { report, findings } =
    length <= rowsMax
      ? { report: await verifyChain(services, tenantId), findings: [] }
      : await verifySince(services, tenantId, { length, rowsMax });
  const known = await readVerification(services, tenantId);
  const { lostPosition, acceptedPosition } = known;
  const evidence = {
    chains_read: report?.chains ?? 0,
    events_read: report?.events ?? 0,
    position: length,
    ...(report === undefined ? {} : { tree_root: report.tree_root }),
    signatures: report?.signatures ?? 0,
    whole_verified_at: known.wholeAtMs === 0 ? null : new Date(known.wholeAtMs).toISOString(),
  };
  return {
    length,
    evidence,
    findings: [
      ...(report === undefined || report.ok ? [] : [damaged(report)]),
      ...(lostPosition > acceptedPosition ? [lost(lostPosition)] : []),
      ...findings,
    ],
  };
}

interface Bounds {
  readonly length: number;
  readonly rowsMax: number;
}

async function verifySince(
  services: Services,
  tenantId: string,
  bounds: Bounds,
): Promise<{
  readonly report: VerificationReport | undefined;
  readonly findings: readonly Finding[];
}> {
  const known = await readVerification(services, tenantId);
  const overdue = overdueOf(services, known, bounds);
  const findings = [...(known.problem === null ? [] : [knownDamage(known.problem)]), ...overdue];
  if (findings.length > 0) return { report: undefined, findings };
  const { report } = await verifyRows(services, { tenantId, from: known.upTo });
  await reportFailure(services, tenantId, report);
  return { report, findings };
}

function overdueOf(
  { clock, config }: Services,
  { wholeAtMs, upTo }: VerificationState,
  { length, rowsMax }: Bounds,
): readonly Finding[] {
  const isRecent = clock.now() - wholeAtMs <= 2 * config.verifyWholeHours * hourMs;
  if (isRecent && length - upTo.tree.size <= rowsMax) return [];
  return [
    {
      reason: 'verification_stale',
      message: 'The last verification of the ledger is too old or incomplete.',
      nextStep:
        'GET /v1/evidence/verify; check why the scheduled verification of the control plane does not run.',
    },
  ];
}

function knownDamage({ kind, position, message }: NonNullable<VerificationState['problem']>) {
  return damage(`${kind} at position ${position}: ${message}`, [`${position} ${kind}`]);
}

function damaged({ problem, problems }: VerificationReport): Finding {
  const { kind, position, message } = problem ?? { kind: '', position: 0, message: '' };
  return damage(
    `${kind} at position ${position}: ${message}`,
    problems.map((one) => `${one.chain_id ?? ''}@${one.position} ${one.kind}`),
  );
}

function damage(what: string, subjects: readonly string[]): Finding {
  return {
    reason: 'ledger_damaged',
    message: `The ledger does not verify: ${what}.`,
    subjects,
    nextStep:
      'GET /v1/evidence/verify says where; keep the database as it is, and compare with an export.',
  };
}

function lost(position: number): Finding {
  return {
    reason: 'evidence_lost',
    message: `The ledger was acknowledged up to position ${position} and ends before it.`,
    nextStep: 'Restore the newest backup; where there is none, say that the loss is accepted.',
  };
}

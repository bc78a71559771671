import { z } from 'zod';
import { Frontier } from '../../../shared/ledger/merkle.ts';
import type { VerifiedUpTo } from '../../../shared/ledger/verification/ledger-source.ts';
import { problemKinds } from '../../../shared/ledger/verification/problem.ts';
import { type EvidenceVerification, Prisma } from '../../platform/store/generated/client.ts';
import { type Transaction, transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';

const problemForm = z.object({
  kind: z.enum(problemKinds),
  position: z.number().int(),
  chain_id: z.string().nullable(),
  message: z.string(),
});
type KnownProblem = z.output<typeof problemForm>;

/** Results of the earlier verifications of a ledger. */
export interface VerificationState {
  readonly upTo: VerifiedUpTo;
  readonly verifiedAtMs: number;
  /** Time of the last verification of the whole ledger. */
  readonly wholeAtMs: number;
  /** Problem that a verification found. Only a verification of the whole ledger clears it. */
  readonly problem: KnownProblem | null;
  /** Highest acknowledged position that the ledger no longer contains; 0 if none. */
  readonly lostPosition: number;
  /** Position up to which an operator accepted the loss. */
  readonly acceptedPosition: number;
}

/** State before the first verification: everything is due. */
export const unverified: VerificationState = {
  upTo: { tree: new Frontier(), latestMs: Number.NEGATIVE_INFINITY },
  verifiedAtMs: 0,
  wholeAtMs: 0,
  problem: null,
  lostPosition: 0,
  acceptedPosition: 0,
};

type StateDeps = Pick<LedgerServices, 'db' | 'vault' | 'log'>;

/**
 * Reads the state. Ignores a row that fails its integrity check; the whole ledger is then verified
 * again.
 */
export async function readVerification(
  services: StateDeps,
  tenantId: string,
  db: Pick<Transaction, 'evidenceVerification'> = services.db,
): Promise<VerificationState> {
  const row = await db.evidenceVerification.findUnique({ where: { tenantId } });
  if (row === null) return unverified;
  if (services.vault.mac(macPurpose, macText(row)) === row.mac) return toState(row);
  services.log.error({ tenantId }, 'what was kept of the last verification was written by another');
  return unverified;
}

/** Changes the state under a lock, so that no concurrent change is lost. */
export async function changeVerification(
  services: StateDeps,
  tenantId: string,
  change: (before: VerificationState) => VerificationState,
): Promise<void> {
  await transaction(services.db, (tx) => changeIn(tx, services, { tenantId, change }));
}

export async function changeIn(
  tx: Transaction,
  services: StateDeps,
  {
    tenantId,
    change,
  }: {
    readonly tenantId: string;
    readonly change: (before: VerificationState) => VerificationState;
  },
): Promise<void> {
  await tx.$executeRaw`
    select pg_advisory_xact_lock(hashtextextended(${`${tenantId} verification`}, 0))`;
  const before = await readVerification(services, tenantId, tx);
  const fields = toRow(tenantId, change(before));
  const mac = services.vault.mac(macPurpose, macText(fields));
  const problem = fields.problem ?? Prisma.DbNull;
  const data = { ...fields, problem, mac };
  await tx.evidenceVerification.deleteMany({ where: { tenantId } });
  await tx.evidenceVerification.create({ data });
}

function toState(row: EvidenceVerification): VerificationState {
  const roots = row.frontier.map((root) => Buffer.from(root, 'hex'));
  return {
    upTo: {
      tree: new Frontier(Number(row.position), roots),
      latestMs: row.latestAt?.getTime() ?? Number.NEGATIVE_INFINITY,
    },
    verifiedAtMs: row.verifiedAt.getTime(),
    wholeAtMs: row.wholeAt.getTime(),
    problem: row.problem === null ? null : problemForm.parse(row.problem),
    lostPosition: Number(row.lostPosition),
    acceptedPosition: Number(row.acceptedPosition),
  };
}

type Row = Omit<EvidenceVerification, 'mac' | 'problem'> & {
  readonly problem: KnownProblem | null;
};

function toRow(tenantId: string, state: VerificationState): Row {
  const { tree, latestMs } = state.upTo;
  return {
    tenantId,
    position: BigInt(tree.size),
    frontier: tree.roots.map((root) => root.toString('hex')),
    latestAt: Number.isFinite(latestMs) ? new Date(latestMs) : null,
    verifiedAt: new Date(state.verifiedAtMs),
    wholeAt: new Date(state.wholeAtMs),
    problem: state.problem,
    lostPosition: BigInt(state.lostPosition),
    acceptedPosition: BigInt(state.acceptedPosition),
  };
}

const macPurpose = 'evidence-verification';

function macText(row: Omit<EvidenceVerification, 'mac'> | Row): string {
  const problem = row.problem === null ? null : problemForm.safeParse(row.problem);
  return JSON.stringify([
    row.tenantId,
    String(row.position),
    row.frontier,
    row.latestAt?.getTime() ?? null,
    row.verifiedAt.getTime(),
    row.wholeAt.getTime(),
    problem?.success === true
      ? [problem.data.kind, problem.data.position, problem.data.chain_id, problem.data.message]
      : null,
    String(row.lostPosition),
    String(row.acceptedPosition),
  ]);
}

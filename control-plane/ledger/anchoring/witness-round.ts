import { openNote } from '../../../shared/ledger/note.ts';
import type { Guard } from '../../../shared/upstream/address-guard.ts';
import type { Witness } from '../../platform/config/witness-settings.ts';
import { guardedExchange } from '../../platform/outbound/guarded-post.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { newestCheckpoint } from '../tree/checkpoint.ts';
import { recordFork } from '../tree/fork.ts';
import { consistencyProof } from '../tree/proofs.ts';
import { readNewest } from '../tree/stored.ts';

const firstWaitMs = 15_000;
const waitMaxMs = 600_000;

interface Wait {
  readonly untilMs: number;
  readonly ms: number;
}

/** Has witnesses cosign the newest checkpoint of every tenant. */
export class WitnessRound {
  readonly #services: LedgerServices;
  /** Backoff of failing witnesses, keyed by tenant and witness. */
  readonly #waits = new Map<string, Wait>();

  constructor(services: LedgerServices) {
    this.#services = services;
  }

  async run(): Promise<void> {
    for (const witness of this.#services.config.witnesses) {
      for (const tenantId of await unsignedBy(this.#services, witness)) {
        await this.#cosign(tenantId, witness);
      }
    }
  }

  async #cosign(tenantId: string, witness: Witness): Promise<void> {
    const { clock, log } = this.#services;
    const name = `${witness.verifier.name} ${tenantId}`;
    const wait = this.#waits.get(name);
    if (wait !== undefined && clock.monotonic() < wait.untilMs) return;
    try {
      await cosignNewest(this.#services, tenantId, witness);
      this.#waits.delete(name);
    } catch (err) {
      const ms = Math.min(wait === undefined ? firstWaitMs : wait.ms * 2, waitMaxMs);
      this.#waits.set(name, { ms, untilMs: clock.monotonic() + ms });
      log.warn(
        { err, tenantId, witness: witness.verifier.name },
        'a witness did not cosign the checkpoint',
      );
    }
  }
}

async function unsignedBy(
  { pool }: Pick<LedgerServices, 'pool'>,
  { verifier }: Witness,
): Promise<readonly string[]> {
  const { rows } = await pool.query<{ tenant_id: string }>(
    `SELECT newest.tenant_id
       FROM evidence_head AS head CROSS JOIN LATERAL (
         SELECT tenant_id, size FROM evidence_checkpoint AS made
          WHERE made.tenant_id = head.tenant_id ORDER BY size DESC LIMIT 1) AS newest
      WHERE NOT EXISTS (SELECT 1 FROM evidence_cosignature AS cosigned
        WHERE cosigned.tenant_id = newest.tenant_id AND cosigned.size = newest.size
          AND cosigned.witness = $1)`,
    [verifier.name],
  );
  return rows.map((row) => row.tenant_id);
}

/** Stores the witness's signature with the checkpoint; rejects if the witness does not sign. */
async function cosignNewest(
  services: LedgerServices,
  tenantId: string,
  witness: Witness,
): Promise<void> {
  const newest = await newestCheckpoint(services, tenantId);
  const stored = await readNewest(services.pool, tenantId);
  if (newest === undefined || stored?.size !== newest.size) return;
  let old = await lastSigned(services, tenantId, witness);
  for (let tries = 0; tries < 2; tries++) {
    const { proof } = await consistencyProof(services, tenantId, { from: old, to: newest.size });
    const question = { note: stored.note, old, proof };
    const answer = await askWitness(witness, question, services.upstream.guard);
    if (answer.outcome === 'cosigned') {
      return keep(services, { tenantId, size: newest.size, witness, line: answer.line });
    }
    if (answer.outcome === 'refused') throw new Error(answer.error);
    if (answer.outcome === 'inconsistent') {
      return disagree(services, tenantId, {
        witness,
        size: newest.size,
        problem: 'not how this one begins',
      });
    }
    if (answer.size > newest.size) {
      const problem = `a larger one, of ${answer.size} events`;
      return disagree(services, tenantId, { witness, size: newest.size, problem });
    }
    old = answer.size;
  }
  throw new Error('the witness signed other sizes meanwhile');
}

interface Disagreement {
  readonly witness: Witness;
  readonly size: number;
  /**
   * Describes the ledger that the witness signed, as a phrase to insert into the message, such as
   * `a larger one`.
   */
  readonly problem: string;
}

/**
 * Reports that a witness signed a different history. The database and its checkpoints were then
 * rolled back or rewritten.
 */
async function disagree(
  services: LedgerServices,
  tenantId: string,
  { witness, size, problem: which }: Disagreement,
): Promise<never> {
  const problem = `witness ${witness.verifier.name} has signed another ledger: ${which}`;
  await recordFork(services, tenantId, { size, problem, once: problem });
  throw new Error(problem);
}

async function lastSigned(
  { pool }: Pick<LedgerServices, 'pool'>,
  tenantId: string,
  { verifier }: Witness,
): Promise<number> {
  const { rows } = await pool.query<{ size: string }>(
    `SELECT coalesce(max(size), 0) AS size FROM evidence_cosignature
      WHERE tenant_id = $1 AND witness = $2`,
    [tenantId, verifier.name],
  );
  return Number(rows[0]?.size ?? 0);
}

interface Cosigned {
  readonly tenantId: string;
  readonly size: number;
  readonly witness: Witness;
  readonly line: string;
}

async function keep(
  { db, clock }: Pick<LedgerServices, 'db' | 'clock'>,
  { tenantId, size, witness, line }: Cosigned,
): Promise<void> {
  const createdAt = new Date(clock.now());
  const data = [{ tenantId, size, witness: witness.verifier.name, line, createdAt }];
  await db.evidenceCosignature.createMany({ data, skipDuplicates: true });
}

interface Question {
  /** Signed note, without cosignatures. */
  readonly note: string;
  /** Size of the last checkpoint that the witness is assumed to have signed; 0 if none. */
  readonly old: number;
  /** Consistency proof from the tree of size `old` to the note's tree. */
  readonly proof: readonly Buffer[];
}

type WitnessAnswer =
  /** A verified signature line. */
  | { readonly outcome: 'cosigned'; readonly line: string }
  /** The last checkpoint that the witness signed has a size other than `old`. */
  | { readonly outcome: 'elsewhere'; readonly size: number }
  /** The tree that the witness signed last is not a prefix of the note's tree. */
  | { readonly outcome: 'inconsistent' }
  | { readonly outcome: 'refused'; readonly error: string };

const timeoutMs = 15_000;

/** Asks a witness to cosign a checkpoint (c2sp.org/tlog-witness, `add-checkpoint`). */
async function askWitness(
  { verifier, url }: Witness,
  { note, old, proof }: Question,
  guard: Guard,
): Promise<WitnessAnswer> {
  const proofLines = proof.map((one) => `${one.toString('base64')}\n`).join('');
  const { status, headers, body } = await guardedExchange({
    url: `${url}/add-checkpoint`,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'user-agent': 'sallyport' },
    body: `old ${old}\n${proofLines}\n${note}`,
    guard,
    timeoutMs,
  });
  if (status === 409 && headers['content-type'] === 'text/x.tlog.size') return elsewhere(body);
  if (status === 422) return { outcome: 'inconsistent' };
  if (status !== 200) return { outcome: 'refused', error: `it answered ${status}` };
  // A witness may send signatures of several keys; only the configured key counts.
  const opened = openNote(`${note}${body}`, [verifier]);
  const line = opened?.verified.find((one) => one.verifier === verifier)?.line;
  return line === undefined
    ? { outcome: 'refused', error: 'its answer holds no valid cosignature' }
    : { outcome: 'cosigned', line };
}

function elsewhere(body: string): WitnessAnswer {
  const size = /^(0|[1-9]\d{0,14})\n$/.exec(body)?.[1];
  return size === undefined
    ? { outcome: 'refused', error: 'it names no size' }
    : { outcome: 'elsewhere', size: Number(size) };
}

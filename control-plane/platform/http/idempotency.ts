import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { type ErrorCode, errorKinds, isErrorCode } from '../../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from '../access/caller.ts';
import type { Platform } from '../platform.ts';
import type { Transaction } from '../store/transaction.ts';
import type { SealedPlace } from '../vault/vault.ts';
import {
  assertNotPerformed,
  markInProgress,
  type RowKey,
  resultIdOf,
  retentionMs,
  trackEffect,
} from './idempotency-effects.ts';
import { waitForNotify } from './wait-for-notify.ts';

const abandonedMsDefault = 120_000;
const waitMs = 30_000;
/** Poll interval while no notification arrives. It doubles up to the maximum. */
const pollMsMin = 100;
const pollMsMax = 1_000;
/**
 * Maximum length of idempotency keys and agent ids. Both are part of a primary key, whose size the
 * database limits.
 */
const keyLengthMax = 300;

export interface IdempotentCall {
  readonly services: Pick<Platform, 'db' | 'vault' | 'clock' | 'bus' | 'log' | 'guard'>;
  readonly caller: Caller;
  /** Id of the operation; aliases of an operation share one. */
  readonly operation: string;
  readonly agentId: string;
  /** The caller's `idempotency_key`. */
  readonly key: string;
  /** The request without the key itself. */
  readonly payload: object;
  /** If a request has no response after this time, its process counts as crashed. */
  readonly abandonedMs?: number;
  /**
   * Called for a crashed request whose effect had begun. Must call `settle` in a transaction of its
   * own.
   */
  readonly onLost?: (lost: LostCall) => Promise<void>;
}

/** A request whose external effect had begun when its process crashed. */
export interface LostCall {
  /** Response that the request stored in advance for this case. */
  readonly answer: KeptAnswer;
  /** Id of the event that records how the request ended. */
  readonly resultId: string;
  /** Stores that response; returns false if another process has already stored it. */
  settle(tx: Pick<Transaction, 'idempotency'>): Promise<boolean>;
}

/**
 * Call it before an external effect begins, with the response that repeats get if this process
 * crashes. Returns the id of the event that records the effect. Throws if another request took over
 * the key; the effect must then not begin.
 */
export type Begin = (ifLost: KeptAnswer) => Promise<string>;

/** A response that can be repeated. */
export interface KeptAnswer {
  readonly status: number;
  readonly body: unknown;
  /**
   * True if the response depends on an outage. It is then not stored, and a retry may get a
   * different one.
   */
  readonly isPassing?: boolean;
}

/**
 * Runs a call at most once per (tenant, API key, agent, operation, idempotency key), across
 * replicas and restarts, for 24 hours. A repeat waits for the first request and gets its response,
 * even if it is a refusal. A crashed first request runs again only if its external effect had not
 * begun; otherwise a repeat gets the response stored for that case. If the same key has another
 * payload, throws `args.idempotency_conflict`. Responses with 5xx or 429, or because of an outage,
 * are not stored, so the request can be retried.
 */
export async function idempotent(
  call: IdempotentCall,
  run: (begin: Begin) => Promise<KeptAnswer>,
): Promise<KeptAnswer> {
  const { services, caller, operation, agentId, key, payload } = call;
  const { tenantId, keyId = caller.principal } = caller;
  const rowKey: RowKey = { tenantId, keyId, agentId, operation, key };
  if (key.length > keyLengthMax || agentId.length > keyLengthMax) {
    throw new GatewayError('args.schema_invalid', {
      message: `idempotency_key and agent_id: at most ${keyLengthMax} characters.`,
    });
  }
  // Uses a keyed hash, so that nobody can guess payloads from the table.
  const fingerprint = services.vault.mac('idempotency', canonicalJson(payload));
  const deadline = performance.now() + waitMs;
  let pollMs = pollMsMin;
  let mayBeFree = true;
  for (;;) {
    const claim = mayBeFree ? await begin(services, rowKey, fingerprint) : undefined;
    if (claim !== undefined) return runAndStore({ call, rowKey, claim }, run);
    const found = await lookUp(call, rowKey, fingerprint);
    if (found.state === 'settled') return replay(found.outcome);
    if (found.state === 'taken-over') return runAndStore({ call, rowKey, claim: found.claim }, run);
    if (performance.now() > deadline) throw new GatewayError('args.idempotency_in_flight');
    mayBeFree = found.state === 'gone';
    if (found.state !== 'in-flight') continue;
    await waitForNotify(services.bus, topicOf(rowKey), pollMs);
    pollMs = Math.min(pollMs * 2, pollMsMax);
  }
}

/** Deletes expired rows. */
export async function sweepIdempotency({
  db,
  clock,
}: Pick<Platform, 'db' | 'clock'>): Promise<number> {
  const { count } = await db.idempotency.deleteMany({
    where: { expiresAt: { lte: new Date(clock.now()) } },
  });
  return count;
}

/** Claims the key if it is free. */
async function begin(
  services: IdempotentCall['services'],
  rowKey: RowKey,
  fingerprint: string,
): Promise<Claim | undefined> {
  const { db, clock } = services;
  const claim = newClaim(clock.now());
  const { count } = await db.idempotency.createMany({
    data: [{ ...rowKey, fingerprint, ...claim }],
    skipDuplicates: true,
  });
  if (count === 0) return undefined;
  try {
    await assertNotPerformed(services, rowKey, clock.now());
    return claim;
  } catch (error) {
    await db.idempotency.deleteMany({ where: { ...rowKey, owner: claim.owner } });
    throw error;
  }
}

type Claim = ReturnType<typeof newClaim>;

function newClaim(now: number) {
  return { owner: randomUUID(), createdAt: new Date(now), expiresAt: new Date(now + retentionMs) };
}

type Found =
  | { readonly state: 'settled'; readonly outcome: Outcome }
  | { readonly state: 'taken-over'; readonly claim: Claim }
  | { readonly state: 'in-flight' }
  /** The request had crashed and has just been settled. Look it up again. */
  | { readonly state: 'looked-after' }
  /** No row exists, so the key can be claimed. */
  | { readonly state: 'gone' };

/** Returns the state of the first request. Throws if the key was used with another payload. */
async function lookUp(
  { services: { db, vault, clock }, abandonedMs = abandonedMsDefault, onLost }: IdempotentCall,
  rowKey: RowKey,
  fingerprint: string,
): Promise<Found> {
  const row = await db.idempotency.findFirst({ where: rowKey });
  if (row === null) return { state: 'gone' };
  const now = clock.now();
  const { owner, status, body } = row;
  if (row.expiresAt.getTime() <= now) {
    await db.idempotency.deleteMany({ where: { ...rowKey, owner } });
    return { state: 'gone' };
  }
  if (row.fingerprint !== fingerprint) throw new GatewayError('args.idempotency_conflict');
  if (status !== null && body !== null) {
    return { state: 'settled', outcome: openOutcome(vault, rowKey, body) };
  }
  if (row.createdAt.getTime() > now - abandonedMs) return { state: 'in-flight' };
  if (body !== null) {
    const answer = replay(openOutcome(vault, rowKey, body));
    const settle: LostCall['settle'] = async (tx) => {
      const where = { ...rowKey, owner, status: null };
      const data = { status: answer.status, owner: randomUUID() };
      return (await tx.idempotency.updateMany({ where, data })).count === 1;
    };
    const resultId = resultIdOf(vault, rowKey, row.expiresAt.getTime() - retentionMs);
    await (onLost === undefined ? settle(db) : onLost({ answer, resultId, settle }));
    return { state: 'looked-after' };
  }
  const claim = newClaim(now);
  const { count } = await db.idempotency.updateMany({
    // Takes over the request only if its effect has not begun, so that nothing is sent twice.
    where: { ...rowKey, owner, status: null, body: null },
    data: claim,
  });
  return count === 1 ? { state: 'taken-over', claim } : { state: 'in-flight' };
}

interface Holding {
  readonly call: IdempotentCall;
  readonly rowKey: RowKey;
  readonly claim: Claim;
}

/** Runs the call and stores its response before returning it. */
async function runAndStore(
  holding: Holding,
  run: (begin: Begin) => Promise<KeptAnswer>,
): Promise<KeptAnswer> {
  const { call, rowKey, claim } = holding;
  const resultId = resultIdOf(call.services.vault, rowKey, claim.createdAt.getTime());
  let begun: Outcome | undefined;
  let answer: KeptAnswer;
  try {
    const begin: Begin = async ({ status, body }) => {
      const ifLost: Outcome = { kind: 'answer', status, body };
      await recordBeginning(holding, ifLost);
      begun = ifLost;
      markInProgress(resultId);
      return resultId;
    };
    answer = await trackEffect(resultId, () => run(begin));
  } catch (thrown) {
    // If the effect has begun, it may have happened, whichever error followed.
    await settle(holding, begun ?? outcomeOf(thrown));
    throw thrown;
  }
  const { status, body, isPassing = false } = answer;
  const settled = settle(holding, { kind: 'answer', status, body }, isPassing);
  // Returns the response of a performed effect even if storing the response fails. A repeat then
  // gets the less detailed response that was stored before the effect.
  await (begun === undefined ? settled : settled.catch((err) => logUnstored(holding, err)));
  return { status, body };
}

/**
 * Records that the effect begins. Checks the owner, so that only one of two processes that both
 * hold the request begins the effect.
 */
async function recordBeginning(
  { call: { services }, rowKey, claim: { owner } }: Holding,
  ifLost: Outcome,
): Promise<void> {
  const { db, vault, clock } = services;
  const { count } = await db.idempotency.updateMany({
    where: { ...rowKey, owner, status: null, body: null },
    data: { body: sealOutcome(vault, rowKey, ifLost), createdAt: new Date(clock.now()) },
  });
  if (count === 0) throw new GatewayError('args.idempotency_in_flight');
}

function logUnstored({ call: { services } }: Holding, err: unknown): void {
  services.log.error({ err }, 'could not store the response of a performed call');
}

const outcomeForm = z.union([
  z.object({ kind: z.literal('answer'), status: z.number(), body: z.unknown() }),
  z.object({
    kind: z.literal('error'),
    status: z.number(),
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
]);
type Outcome = z.output<typeof outcomeForm>;

function sealOutcome(vault: Platform['vault'], rowKey: RowKey, outcome: Outcome): string {
  return vault.seal(JSON.stringify(outcome), placeOf(rowKey));
}

function openOutcome(vault: Platform['vault'], rowKey: RowKey, sealed: string): Outcome {
  return outcomeForm.parse(JSON.parse(vault.open(sealed, placeOf(rowKey)).toString('utf8')));
}

function outcomeOf(thrown: unknown): Outcome {
  const error = thrown instanceof GatewayError ? thrown : new GatewayError('internal.unexpected');
  const { code, message, details } = error;
  const status = errorKinds[code].status;
  return { kind: 'error', status, code, message, ...(details && { details: { ...details } }) };
}

async function settle(
  { call: { services }, rowKey, claim: { owner } }: Holding,
  outcome: Outcome,
  isPassing = false,
): Promise<void> {
  const { db, vault, bus, log } = services;
  const isKept = !isPassing && outcome.status < 500 && outcome.status !== 429;
  if (isKept) {
    await db.idempotency.updateMany({
      where: { ...rowKey, owner },
      data: {
        status: outcome.status,
        body: sealOutcome(vault, rowKey, outcome),
      },
    });
  } else {
    await db.idempotency.deleteMany({ where: { ...rowKey, owner } });
  }
  await bus
    .notify(topicOf(rowKey), 'settled')
    .catch((err: unknown) =>
      log.debug({ err }, 'could not notify waiting requests; they poll instead'),
    );
}

function replay(outcome: Outcome): KeptAnswer {
  if (outcome.kind === 'answer') return { status: outcome.status, body: outcome.body };
  const { message, details, code } = outcome;
  const known: ErrorCode = isErrorCode(code) ? code : 'internal.unexpected';
  throw new GatewayError(known, details === undefined ? { message } : { message, details });
}

function topicOf({ tenantId, keyId, agentId, operation, key }: RowKey): string {
  return `idempotency ${canonicalJson([tenantId, keyId, agentId, operation, key])}`;
}

function placeOf({ tenantId, keyId, agentId, operation, key }: RowKey): SealedPlace {
  const id = canonicalJson([keyId, agentId, operation, key]);
  return { tenantId, purpose: 'idempotency', id, version: 1 };
}

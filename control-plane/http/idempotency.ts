import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { type ErrorCode, errorKinds, GatewayError, isErrorCode } from '../../shared/errors.ts';
import type { SealedPlace, Services } from '../services.ts';
import type { Caller } from './route.ts';

const keptMs = 24 * 60 * 60 * 1000;
/** After this a first request that has not answered is taken to have died with its process. */
const abandonedMs = 120_000;
const waitMs = 30_000;
const pollMs = 100;
/** They are part of a primary key, whose size the database bounds. */
const keyLengthMax = 300;

export interface IdempotentCall {
  readonly services: Pick<Services, 'db' | 'vault' | 'clock' | 'bus' | 'log'>;
  readonly caller: Caller;
  /** Id of the operation, aliases under one name. */
  readonly operation: string;
  readonly agentId: string;
  /** The caller's `idempotency_key`. */
  readonly key: string;
  /** What was asked, without the key itself. */
  readonly payload: object;
  /**
   * When the first request died half-way: `rerun` for what has no outside effect, `refuse` for
   * what may have had one already. Default: `rerun`.
   */
  readonly abandoned?: 'rerun' | 'refuse';
}

/** An answer as it can be given again. */
interface KeptAnswer {
  readonly status: number;
  readonly body: unknown;
  /** It rests on an outage: whoever tries again gets another. */
  readonly isPassing?: boolean;
}

type RowKey = {
  readonly tenantId: string;
  readonly keyId: string;
  readonly agentId: string;
  readonly operation: string;
  readonly key: string;
};

/**
 * Runs a call at most once per (tenant, API key, agent, operation, idempotency key), over all
 * replicas and restarts, for 24 hours: a repeat gets the first one's answer, refusals included,
 * and waits for it while it is in flight. The same key with another payload is
 * `args.idempotency_conflict`. What failed with 5xx or 429, or rests on an outage, is not kept and
 * may be tried again.
 */
export async function idempotent(
  call: IdempotentCall,
  run: () => Promise<KeptAnswer>,
): Promise<KeptAnswer> {
  const { services, caller, operation, agentId, key, payload } = call;
  const { tenantId, keyId = caller.principal } = caller;
  const rowKey: RowKey = { tenantId, keyId, agentId, operation, key };
  if (key.length > keyLengthMax || agentId.length > keyLengthMax) {
    throw new GatewayError('args.schema_invalid', {
      message: `idempotency_key and agent_id: at most ${keyLengthMax} characters.`,
    });
  }
  // Keyed, so that payloads cannot be guessed from the table.
  const fingerprint = services.vault.mac('idempotency', canonicalJson(payload));
  const deadline = performance.now() + waitMs;
  for (;;) {
    const owner = await begin(services, rowKey, fingerprint);
    if (owner !== undefined) return carryOut({ call, rowKey, owner }, run);
    const found = await lookUp(call, rowKey, fingerprint);
    if (found.state === 'settled') return replay(found.outcome);
    if (found.state === 'taken-over') return carryOut({ call, rowKey, owner: found.owner }, run);
    if (performance.now() > deadline) throw new GatewayError('args.idempotency_in_flight');
    if (found.state === 'in-flight') await nextChance(services, rowKey);
  }
}

/** Deletes what is past its time. */
export async function sweepIdempotency({
  db,
  clock,
}: Pick<Services, 'db' | 'clock'>): Promise<number> {
  const { count } = await db.idempotency.deleteMany({
    where: { expiresAt: { lte: new Date(clock.now()) } },
  });
  return count;
}

/** Takes the key if nobody has. */
async function begin(
  { db, clock }: IdempotentCall['services'],
  rowKey: RowKey,
  fingerprint: string,
): Promise<string | undefined> {
  const claim = newClaim(clock.now());
  const { count } = await db.idempotency.createMany({
    data: [{ ...rowKey, fingerprint, ...claim }],
    skipDuplicates: true,
  });
  return count === 1 ? claim.owner : undefined;
}

function newClaim(now: number) {
  return { owner: randomUUID(), createdAt: new Date(now), expiresAt: new Date(now + keptMs) };
}

type Found =
  | { readonly state: 'settled'; readonly outcome: Outcome }
  | { readonly state: 'taken-over'; readonly owner: string }
  | { readonly state: 'in-flight' }
  /** There is nothing any more: the key may be taken. */
  | { readonly state: 'gone' };

/** What became of the first request. Throws for another payload under the same key. */
async function lookUp(
  { services: { db, vault, clock }, abandoned = 'rerun' }: IdempotentCall,
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
    const text = vault.open(body, placeOf(rowKey)).toString('utf8');
    return { state: 'settled', outcome: outcomeForm.parse(JSON.parse(text)) };
  }
  if (row.createdAt.getTime() > now - abandonedMs) return { state: 'in-flight' };
  if (abandoned === 'refuse') {
    throw new GatewayError('args.idempotency_conflict', {
      message:
        'The first request with this key ended without a known outcome. Look it up in the evidence before you try again with another key.',
    });
  }
  const claim = newClaim(now);
  const { count } = await db.idempotency.updateMany({
    where: { ...rowKey, owner, status: null },
    data: claim,
  });
  return count === 1 ? { state: 'taken-over', owner: claim.owner } : { state: 'in-flight' };
}

interface Holding {
  readonly call: IdempotentCall;
  readonly rowKey: RowKey;
  readonly owner: string;
}

/** Runs, and keeps the answer before it is given. */
async function carryOut(holding: Holding, run: () => Promise<KeptAnswer>): Promise<KeptAnswer> {
  let answer: KeptAnswer;
  try {
    answer = await run();
  } catch (thrown) {
    await settle(holding, outcomeOf(thrown));
    throw thrown;
  }
  const { status, body, isPassing = false } = answer;
  await settle(holding, { kind: 'answer', status, body }, isPassing);
  return { status, body };
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

function outcomeOf(thrown: unknown): Outcome {
  const error = thrown instanceof GatewayError ? thrown : new GatewayError('internal.unexpected');
  const { code, message, details } = error;
  const status = errorKinds[code].status;
  return { kind: 'error', status, code, message, ...(details && { details: { ...details } }) };
}

async function settle(
  { call: { services }, rowKey, owner }: Holding,
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
        body: vault.seal(JSON.stringify(outcome), placeOf(rowKey)),
      },
    });
  } else {
    await db.idempotency.deleteMany({ where: { ...rowKey, owner } });
  }
  await bus
    .notify(topicOf(rowKey), 'settled')
    .catch((err: unknown) => log.debug({ err }, 'those who wait for an answer will poll for it'));
}

function replay(outcome: Outcome): KeptAnswer {
  if (outcome.kind === 'answer') return { status: outcome.status, body: outcome.body };
  const { message, details, code } = outcome;
  const known: ErrorCode = isErrorCode(code) ? code : 'internal.unexpected';
  throw new GatewayError(known, details === undefined ? { message } : { message, details });
}

/** Waits until the first request is told to have settled, or a moment. */
async function nextChance({ bus }: Pick<Services, 'bus'>, rowKey: RowKey): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, pollMs);
  const subscription = bus.subscribe(topicOf(rowKey), () => resolve());
  await promise;
  clearTimeout(timer);
  await subscription.close().catch(() => undefined);
}

function topicOf({ tenantId, keyId, agentId, operation, key }: RowKey): string {
  return `idempotency ${canonicalJson([tenantId, keyId, agentId, operation, key])}`;
}

function placeOf({ tenantId, keyId, agentId, operation, key }: RowKey): SealedPlace {
  const id = canonicalJson([keyId, agentId, operation, key]);
  return { tenantId, purpose: 'idempotency', id, version: 1 };
}

import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type FaultBench, type LedgerEvent, startFaultBench } from './fault-bench.ts';

/** A call and its result, as the agent saw it. */
interface Call {
  readonly number: number;
  readonly worker: number;
  /** Undefined if there was no response. */
  status: number | undefined;
}

export interface NumberedCalls {
  readonly bench: FaultBench;
  /** Number of calls with the response 200 so far. */
  readonly performed: number;
  /** While true, the agents make no calls, because the sidecar is known to be unavailable. */
  isHeld: boolean;
  /** Stops the agents after each has received its response. */
  stop(): Promise<void>;
  /** Compares the performed calls, the responses and the ledger. */
  check(): Promise<Tally>;
  close(): Promise<void>;
}

export interface Tally {
  readonly calls: number;
  readonly performed: number;
  readonly unanswered: number;
  /**
   * Number of interrupted calls: they were performed or permitted, but the ledger contains no
   * outcome.
   */
  readonly cut: number;
  readonly events: number;
}

const agents = 6;
const pauseMs = 10;

/**
 * Starts agents that call sequentially. Every call has a unique number, which also appears in the
 * ledger.
 */
export async function startNumberedCalls({
  isPresenting = false,
}: {
  /**
   * Every second agent presents passports of its own. A sidecar that is killed repeatedly gets only
   * a limited number of leases per minute, and calls without a passport need a lease.
   */
  readonly isPresenting?: boolean;
} = {}): Promise<NumberedCalls> {
  const bench = await startFaultBench({ SALLYPORT_LOG_LEVEL: 'error' });
  const host = `127.0.0.1:${bench.upstream.port}`;
  await bench.separate.api('PUT', '/v1/runtime/bindings/numbered', {
    protocol: 'http',
    host,
    method: 'POST',
    path: '/numbered/{number}',
    body: 'json',
    tool: 'bank.pay',
    resource: 'call:{number}',
  });
  const send = (number: number, headers = {}) =>
    bench.agent.post(`http://${host}/numbered/${number}`, { amount: 1 }, headers);
  while ((await send(0)).status !== 200) await delay(20);
  const calls: Call[] = [{ number: 0, worker: 0, status: 200 }];
  let isStopped = false;
  let done = 0;

  const work = async (worker: number) => {
    while (!isStopped) {
      await delay(pauseMs);
      if (run.isHeld) continue;
      const isPresented = isPresenting && worker % 2 === 1;
      const headers = isPresented ? { 'action-passport': await issuePassport(bench) } : {};
      const call: Call = { number: calls.length, worker, status: undefined };
      calls.push(call);
      call.status = await send(call.number, headers).then(
        ({ status }) => status,
        () => undefined,
      );
      if (call.status === 200) done += 1;
    }
  };
  const run = {
    bench,
    isHeld: false,
    get performed() {
      return done;
    },
    async stop() {
      isStopped = true;
      await working;
    },
    async check() {
      await untilSpoolEmpty(bench);
      const verified = await bench.separate.api('GET', '/v1/evidence/verify');
      expect(verified.body).toMatchObject({ ok: true });
      return tally({ calls, performed: performedOf(bench), events: await bench.events() });
    },
    async close() {
      isStopped = true;
      await bench.close();
    },
  };
  const working = Promise.all(Array.from({ length: agents }, (_, worker) => work(worker)));
  return run;
}

async function issuePassport({ separate }: FaultBench): Promise<string> {
  const { body } = await separate.api('POST', '/v1/agents/issue-passport', {
    agent_id: Number(separate.agentId),
    requested_tools: ['bank.pay'],
    risk_tier: 'low',
  });
  return String(body.token);
}

/** Resolves when the sidecar has uploaded all its records. */
export async function untilSpoolEmpty({ separate }: FaultBench): Promise<void> {
  for (const deadline = performance.now() + 60_000; ; await delay(50)) {
    const text = await (await fetch(`${separate.adminUrl}/metrics`)).text();
    if (/^sallyport_spool_records 0$/m.test(text)) return;
    if (performance.now() > deadline) throw new Error('the spool was never emptied');
  }
}

function performedOf({ upstream }: FaultBench): readonly number[] {
  return upstream.seen.flatMap(({ url }) => {
    const number = /^\/numbered\/(\d+)$/.exec(url)?.[1];
    return number === undefined ? [] : [Number(number)];
  });
}

function tally({
  calls,
  performed,
  events,
}: {
  readonly calls: readonly Call[];
  readonly performed: readonly number[];
  readonly events: readonly LedgerEvent[];
}): Tally {
  const decisions = new Map<number, LedgerEvent[]>();
  const outcomes = new Map<string, number>();
  for (const event of events) {
    const number = /^call:(\d+)$/.exec(event.resource ?? '')?.[1];
    if (event.type === 'decision' && number !== undefined) {
      decisions.set(Number(number), [...(decisions.get(Number(number)) ?? []), event]);
    } else if (event.type === 'execution.result') {
      const id = String(event.data.decision_event_id);
      outcomes.set(id, (outcomes.get(id) ?? 0) + 1);
    }
  }
  const allowedOf = (number: number) =>
    (decisions.get(number) ?? []).filter(({ decision }) => decision === 'allow');

  // Ignores the calls with the number 0, which were made only to wait until the policy was active.
  const numbered = calls.filter(({ number }) => number > 0);
  expect(findRepeated(performed.filter((number) => number > 0))).toEqual([]);
  expect(performed.filter((number) => allowedOf(number).length === 0)).toEqual([]);
  const answers = numbered.filter(({ status }) => status !== undefined);
  expect(answers.filter(({ number }) => !decisions.has(number))).toEqual([]);
  expect(
    numbered.filter(({ number, status }) => status === 200 && allowedOf(number).length !== 1),
  ).toEqual([]);
  expect(numbered.filter(({ number }) => allowedOf(number).length > 1)).toEqual([]);
  expect([...outcomes.values()].filter((count) => count !== 1)).toEqual([]);
  expect(findRepeated(events.map(({ id }) => id))).toEqual([]);
  expect(events.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1));
  expect(events.filter(({ data }) => data['evidence.dead_lettered'] === true)).toEqual([]);
  expect(events.filter(({ type }) => type.startsWith('sidecar.evidence_'))).toEqual([]);

  const cut = numbered.filter(({ number }) => {
    const [decision] = allowedOf(number);
    return decision !== undefined && !outcomes.has(decision.id);
  });
  expect(
    cut.filter((call) => !isFollowedByBeginning(call, { numbered, events, allowedOf })),
  ).toEqual([]);
  return {
    calls: numbered.length,
    performed: performed.length,
    unanswered: numbered.length - answers.length,
    cut: cut.length,
    events: events.length,
  };
}

/**
 * Returns whether the sidecar died after this call, which is the only valid reason for a missing
 * outcome. In this case, the ledger contains a new start of the sidecar before the next call of the
 * same agent, because each agent calls sequentially.
 */
function isFollowedByBeginning(
  { number, worker }: Call,
  ledger: {
    readonly numbered: readonly Call[];
    readonly events: readonly LedgerEvent[];
    readonly allowedOf: (number: number) => readonly LedgerEvent[];
  },
): boolean {
  const { numbered, events, allowedOf } = ledger;
  const at = allowedOf(number)[0]?.position ?? 0;
  const next = numbered
    .filter((call) => call.worker === worker && call.number > number)
    .flatMap((call) => allowedOf(call.number).map(({ position }) => position))[0];
  const beginning = events.find(
    ({ type, position }) => type === 'sidecar.started' && position > at,
  )?.position;
  return beginning !== undefined && (next === undefined || beginning < next);
}

function findRepeated<T>(values: readonly T[]): readonly T[] {
  const seen = new Set<T>();
  return values.filter((value) => seen.size === seen.add(value).size);
}

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type Answer, secret, startExecuteStage } from './execute-stage.ts';

const times = 200;
let stage: Awaited<ReturnType<typeof startExecuteStage>>;
beforeAll(async () => {
  stage = await startExecuteStage();
}, 120_000);
afterAll(() => stage?.close());

type Held = () => void;

/** Makes the upstream hold each response until it is released; the response contains the received amount. */
function holdAnswers(): Held {
  const gate = Promise.withResolvers<void>();
  stage.upstream.behave((_req, res, body) => {
    void gate.promise.then(() => {
      res.writeHead(201, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ paid: JSON.parse(body).amount, marker: 'answer-of-the-bank' }));
    });
  });
  return gate.resolve;
}

beforeEach(() => holdAnswers()());

const arrived = (amount: number) =>
  until('the upstream has the call', async () => stage.paid(amount) === 1);
const bodies = (answers: readonly Answer[]) => new Set(answers.map(({ text }) => text));

describe('execute requests with one idempotency key', () => {
  it(`reach the upstream once if ${times} are sent concurrently to two control planes`, async () => {
    const release = holdAnswers();
    const running = Promise.all(
      Array.from({ length: times }, (_, at) => stage.pay(at % 2, 1, { idempotency_key: 'one' })),
    );
    await arrived(1);
    release();
    const answers = await running;
    expect(answers.map(({ status }) => status)).toEqual(Array(times).fill(200));
    expect(bodies(answers).size).toBe(1);
    expect(answers[0]?.body).toMatchObject({ executed: true, result: { body: { paid: 1 } } });
    expect(stage.paid(1)).toBe(1);
    expect(await stage.resultsOf(answers[0]?.body.evidence_event_id)).toHaveLength(1);
  });

  it('wait at one control plane while the other control plane executes the first request', async () => {
    const release = holdAnswers();
    const first = stage.pay(0, 2, { idempotency_key: 'two' });
    await arrived(2);
    const second = stage.pay(1, 2, { idempotency_key: 'two' });
    release();
    expect(bodies([await first, await second]).size).toBe(1);
    expect(stage.paid(2)).toBe(1);
  });

  it('are refused if the payload differs, even while the first request is in progress', async () => {
    const release = holdAnswers();
    const first = stage.pay(0, 3, { idempotency_key: 'three' });
    await arrived(3);
    const conflict = { status: 400, body: { reason_code: 'args.idempotency_conflict' } };
    expect(await stage.pay(1, 4, { idempotency_key: 'three' })).toMatchObject(conflict);
    release();
    await first;
    expect(await stage.pay(1, 4, { idempotency_key: 'three' })).toMatchObject(conflict);
    expect(stage.paid(4)).toBe(0);
  });

  it('return the stored response, which is encrypted in the database', async () => {
    const first = await stage.pay(0, 5, { idempotency_key: 'five' });
    expect(first.text).toContain('answer-of-the-bank');
    const again = await stage.pay(1, 5, { idempotency_key: 'five' });
    expect([again.text, stage.paid(5)]).toEqual([first.text, 1]);
    const { rows } = await stage.pool.query("select * from idempotency where key = 'five'");
    expect(JSON.stringify(rows)).not.toContain('answer-of-the-bank');
    expect(rows).toHaveLength(1);
  });

  it('return the stored refusal, even if the same request with a new key would succeed', async () => {
    const { pool } = stage;
    await pool.query('update "binding" set mac = mac || \'x\'');
    const refused = await stage.pay(0, 6, { idempotency_key: 'six' });
    expect(refused.body).toMatchObject({ executed: false });
    await pool.query('update "binding" set mac = left(mac, -1)');
    expect((await stage.pay(1, 6, { idempotency_key: 'six' })).text).toBe(refused.text);
    expect((await stage.pay(1, 6, { idempotency_key: 'six-b' })).body.executed).toBe(true);
  });
});

describe('a control plane that ends during execute', () => {
  it('after sending the call records one event with an unknown outcome, and does not send the call again', async () => {
    holdAnswers();
    const cut = stage.pay(0, 7, { idempotency_key: 'seven' }).catch(() => 'cut');
    await arrived(7);
    await stage.programs[0]?.kill();
    expect(await cut).toBe('cut');
    await stage.age('seven');
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => stage.pay(1, 7, { idempotency_key: 'seven' })),
    );
    expect(bodies(answers).size).toBe(1);
    expect(answers[0]).toMatchObject({
      status: 200,
      body: {
        decision: 'allow',
        executed: 'unknown',
        failure: { reason_code: 'execution.outcome_unknown' },
      },
    });
    expect(stage.paid(7)).toBe(1);
    const results = await stage.resultsOf(answers[0]?.body.evidence_event_id);
    expect(results).toMatchObject([
      { reason_code: 'execution.outcome_unknown', data: { executed: 'unknown' } },
    ]);
    await stage.start(0);
    const later = await stage.pay(0, 7, { idempotency_key: 'seven' });
    expect([later.text, stage.paid(7)]).toEqual([answers[0]?.text, 1]);
  });

  it('before sending the call leaves the idempotency key usable, and the next request sends the call once', async () => {
    const holder = await stage.pool.connect();
    await holder.query('begin');
    await holder.query('lock table evidence_salt in exclusive mode');
    const cut = stage.pay(0, 8, { idempotency_key: 'eight' }).catch(() => 'cut');
    await until('the decision waits to be sealed', async () => {
      const { rows } = await stage.pool.query(
        "select 1 from pg_locks where relation = 'evidence_salt'::regclass and not granted",
      );
      return rows.length > 0;
    });
    await stage.programs[0]?.kill();
    await holder.query('commit');
    holder.release(true);
    expect(await cut).toBe('cut');
    await stage.age('eight');
    const answer = await stage.pay(1, 8, { idempotency_key: 'eight' });
    expect(answer.body).toMatchObject({ executed: true });
    expect(stage.paid(8)).toBe(1);
    await stage.start(0);
  });

  it('because of SIGTERM reports the interrupted call and records it before the exit', async () => {
    holdAnswers();
    const cut = stage.pay(0, 9, { idempotency_key: 'nine' }).catch(() => 'cut');
    await arrived(9);
    expect(await stage.programs[0]?.stop()).toBe(0);
    await cut;
    const answer = await stage.pay(1, 9, { idempotency_key: 'nine' });
    expect(answer.body).toMatchObject({
      executed: 'unknown',
      failure: { reason_code: 'execution.interrupted' },
    });
    expect(await stage.resultsOf(answer.body.evidence_event_id)).toMatchObject([
      { reason_code: 'execution.interrupted', data: { executed: 'unknown' } },
    ]);
    expect(stage.paid(9)).toBe(1);
  });
});

it('the credential that execute uses appears in no log, row or response', async () => {
  stage.upstream.behave((req, res) => res.end(`you are ${req.headers.authorization}`));
  const answer = await stage.pay(1, 10);
  expect(answer.body).toMatchObject({ failure: { reason_code: 'credential.reflected' } });
  expect(stage.upstream.seen.at(-1)?.headers.authorization).toBe(`Bearer ${secret}`);
  expect(answer.text).not.toContain(secret);
  for (const program of stage.programs) expect(program.output()).not.toContain(secret);
  for (const table of ['evidence_row', 'idempotency', 'event_outbox', 'credential', 'binding']) {
    const { rows } = await stage.pool.query(`select * from "${table}"`);
    expect(JSON.stringify(rows)).not.toContain(secret);
  }
});

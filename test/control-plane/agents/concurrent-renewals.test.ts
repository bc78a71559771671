import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manualClock } from '../../support/base/manual-clock.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { startRedis } from '../../support/programs/redis.ts';

let replicas: [Gateway, Gateway];
let redis: Awaited<ReturnType<typeof startRedis>>;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let agent_id: number;
beforeAll(async () => {
  redis = await startRedis();
  database = await freshDatabase();
  // This clock is ahead of Redis's clock, so that every passport is issued after Redis began to store claims.
  const clock = manualClock(Date.now() + 60_000);
  const options = {
    databaseUrl: database.url,
    redisUrl: redis.url,
    masterKey: randomBytes(32),
    clock,
  };
  const first = await startGateway(options);
  replicas = [first, await startGateway(options)];
  agent_id = Number(await first.agent());
  await first.publish(rule('allow', 'pay'));
});
afterAll(async () => {
  for (const replica of replicas) await replica.close();
  await redis.stop();
  await database.drop();
});

async function issue(): Promise<string> {
  const body = { agent_id, requested_tools: ['pay'] };
  return String((await replicas[0].post('/v1/agents/issue-passport', body)).body?.token);
}

const at = (n: number) => replicas[n % 2 === 0 ? 0 : 1];
const renew = (n: number, passport: string) =>
  at(n).post('/v1/agents/renew', { agent_id, passport });

it('of 200 concurrent renewals of one passport at two control planes, exactly one succeeds', async () => {
  const passport = await issue();
  const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => renew(n, passport)));
  const made = answers.filter(({ status }) => status === 201);
  expect(made).toHaveLength(1);
  const codes = answers
    .filter(({ status }) => status !== 201)
    .map(({ status, body }) => `${status} ${body?.reason_code}`);
  expect(new Set(codes)).toEqual(new Set(['403 passport.replay_detected']));
  const events = await eventsOf(replicas[0].services, 'default');
  expect(events.filter(({ type }) => type === 'passport.renewed')).toHaveLength(1);
});

it('of many concurrent renewals and uses of one passport, exactly one succeeds', async () => {
  const passport = await issue();
  const ask = (n: number) =>
    at(n).post('/v1/actions/preflight', {
      tool: 'pay',
      resource: 'r',
      agent_id: String(agent_id),
      user_id: 'u',
      passport,
    });
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) => (n % 4 < 2 ? renew(n, passport) : ask(n))),
  );
  expect(answers.filter(({ status }) => status < 300)).toHaveLength(1);
});

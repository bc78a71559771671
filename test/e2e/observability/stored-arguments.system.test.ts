import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { startTwoOfEach, type TwoOfEach } from '../../support/system/two-of-each.ts';

let world: TwoOfEach;
beforeAll(async () => {
  world = await startTwoOfEach();
}, 120_000);
afterAll(() => world?.close());

const keep = async (evidence_arguments: string) => {
  const body = { evidence_arguments, sensitive_fields: ['memo'] };
  expect((await world.api('PATCH', '/v1/tenant/settings', body)).status).toBe(200);
};
const pay = (memo: string) =>
  world.sidecars[0].agent.post(`http://127.0.0.1:${world.upstream.port}/pay`, {
    amount: 1,
    memo,
    to: `${memo}@customer.example`,
    note: `about ${memo.length}`,
  });

/** Returns the newest decision that a sidecar uploaded. */
async function newest(): Promise<Record<string, unknown> | undefined> {
  const decisions = await world.events('decision');
  return decisions.filter(({ source }) => String(source).startsWith('sidecar:')).at(-1);
}

it('a sidecar uploads redacted arguments, apart from the ledger, only while its tenant enables stored arguments', async () => {
  await keep('redacted');
  // Sidecars receive the setting from the bus.
  await until('redacted arguments arrive', async () => {
    await pay('first');
    const { data } = (await newest()) ?? {};
    return (data as Record<string, unknown> | undefined)?.args_kept_digest !== undefined;
  });
  const event = await newest();
  expect(JSON.stringify(event)).not.toContain('first');
  const path = `/v1/evidence/events/${event?.id}/arguments`;
  expect((await world.api('GET', path)).body).toEqual({
    event_id: event?.id,
    arguments: { amount: 1, memo: '[redacted]', to: '[redacted:email]', note: 'about 5' },
    proven: true,
  });
  expect((await world.api('DELETE', path)).status).toBe(200);
  expect(await world.api('GET', path, undefined, 1)).toMatchObject({ status: 410 });
  await keep('digest');
  await until('nothing is kept any more', async () => {
    await pay('second');
    const { data, id } = (await newest()) ?? {};
    const isDigest = (data as Record<string, unknown>).args_kept_digest === undefined;
    const { status } = await world.api('GET', `/v1/evidence/events/${id}/arguments`);
    return isDigest && status === 404;
  });
  expect((await world.api('GET', '/v1/evidence/verify')).body).toMatchObject({ ok: true });
});

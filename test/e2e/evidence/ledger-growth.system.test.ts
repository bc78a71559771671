import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';
import { untilSpoolEmpty } from '../../support/system/numbered-calls.ts';

const calls = 3_000;
let bench: FaultBench;
let pool: pg.Pool;
beforeAll(async () => {
  bench = await startFaultBench({ SALLYPORT_LOG_LEVEL: 'error' });
  pool = new pg.Pool({ connectionString: bench.database.url });
});
afterAll(async () => {
  await pool?.end();
  await bench?.close();
});

async function databaseBytes(): Promise<number> {
  const { rows } = await pool.query<{ bytes: string }>(
    'SELECT pg_database_size(current_database()) AS bytes',
  );
  return Number(rows[0]?.bytes);
}

// docs/how-to/deploy-on-kubernetes.md plans with 4 GB for a million calls.
it('grows the database by 3 to 5 KB for a performed call', async () => {
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
  const body = { amount: 1, note: 'a short note' };
  const send = (number: number) => bench.agent.post(`http://${host}/numbered/${number}`, body);
  while ((await send(0)).status !== 200) await delay(20);
  await untilSpoolEmpty(bench);
  const before = await databaseBytes();
  let sent = 0;
  const work = async () => {
    while (sent < calls) {
      sent += 1;
      expect((await send(sent)).status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  await untilSpoolEmpty(bench);
  const bytesPerCall = ((await databaseBytes()) - before) / sent;
  expect(bytesPerCall).toBeGreaterThan(3_000);
  expect(bytesPerCall).toBeLessThan(5_000);
}, 600_000);

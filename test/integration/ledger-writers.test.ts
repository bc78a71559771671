import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { transaction } from '../../control-plane/platform/store/transaction.ts';
import { exportPrivateKey, generateSigningKey } from '../../shared/crypto/signing-key.ts';
import { genesisHash, type SealedEvent } from '../../shared/ledger/event.ts';
import { anEvent, openLedger, type TestLedger } from '../support/ledger/ledger.ts';
import { freshDatabase } from '../support/programs/postgres.ts';
import { until } from '../support/programs/processes.ts';

const key = generateSigningKey();
let database: Awaited<ReturnType<typeof freshDatabase>>;
let ledgers: [TestLedger, TestLedger];
let tenants = 0;
let tenantId: string;

beforeAll(async () => {
  database = await freshDatabase();
  // Two control planes, each with its own connection pool, queue and cached head of the ledger.
  ledgers = [
    await openLedger({ databaseUrl: database.url, key }),
    await openLedger({ databaseUrl: database.url, key }),
  ];
});
afterAll(async () => {
  for (const ledger of ledgers) await ledger.close();
  await database.drop();
});
afterEach(async () => {
  expect(await ledgers[0].verify(tenantId)).toMatchObject({ ok: true, problem: null });
});
const newTenant = () => {
  tenantId = `tenant_${++tenants}`;
};

interface Row {
  readonly position: number;
  readonly chain_id: string;
  readonly seq: number;
  readonly prev_hash: string;
  readonly event_id: string;
}

async function rows(): Promise<readonly Row[]> {
  const result = await ledgers[0].store.pool.query<Row>(
    `SELECT position::int, chain_id, seq::int, prev_hash, event_id
       FROM evidence_row WHERE tenant_id = $1 ORDER BY position`,
    [tenantId],
  );
  return result.rows;
}

/**
 * Expects the invariants of any ledger. They are checked on the table itself, without the product's verifier.
 */
async function expectSound(eventIds: readonly string[]): Promise<void> {
  const ledger = await rows();
  expect(ledger.map(({ position }) => position)).toEqual(ledger.map((_, index) => index + 1));
  const predecessors = ledger
    .filter(({ prev_hash }) => prev_hash !== genesisHash)
    .map(({ prev_hash }) => prev_hash);
  expect(new Set(predecessors).size).toBe(predecessors.length);
  const chains = Map.groupBy(ledger, ({ chain_id }) => chain_id);
  for (const chain of chains.values()) {
    expect(chain.map(({ seq }) => seq)).toEqual(chain.map((_, index) => index + 1));
    expect(chain[0]?.prev_hash).toBe(genesisHash);
  }
  expect(ledger.map(({ event_id }) => event_id).sort()).toEqual([...eventIds].sort());
}

describe('two writers of one ledger', () => {
  it('cause no gaps and no fork, and neither lose nor duplicate an event', async () => {
    newTenant();
    const eventIds: string[] = [];
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let round = 0; round < 40; round++) {
        const events = Array.from({ length: 1 + ((round * 7 + writer) % 5) }, () =>
          anEvent({ chain_id: `agent:${(round + writer) % 3}` }),
        );
        eventIds.push(...events.map(({ id }) => id));
        const sealed = await ledgers[writer % 2 === 0 ? 0 : 1].sealAll(tenantId, events);
        expect(sealed.map(({ canonical }) => JSON.parse(canonical).id)).toEqual(
          events.map(({ id }) => id),
        );
      }
    });
    await Promise.all(writers);
    await expectSound(eventIds);
  });

  it('see each other’s events on a chain', async () => {
    newTenant();
    for (let round = 0; round < 20; round++) {
      const sealed = await ledgers[round % 2 === 0 ? 0 : 1].seal(tenantId, anEvent());
      expect(sealed).toMatchObject({ position: round + 1, seq: round + 1 });
    }
    await expectSound((await rows()).map(({ event_id }) => event_id));
  });

  it('seal an event once if both writers receive it, and return the same row', async () => {
    newTenant();
    const events = Array.from({ length: 60 }, (_, index) =>
      anEvent({ chain_id: `agent:${index % 4}` }),
    );
    const shuffled = events.toSorted((a, b) => (a.id.slice(-4) < b.id.slice(-4) ? -1 : 1));
    const [one, other] = await Promise.all([
      Promise.all(events.map((event) => ledgers[0].seal(tenantId, event))),
      Promise.all(shuffled.map((event) => ledgers[1].seal(tenantId, event))),
    ]);
    const byId = (sealed: readonly SealedEvent[]) =>
      new Map(sealed.map((row) => [JSON.parse(row.canonical).id, row]));
    expect(byId(other)).toEqual(byId(one));
    await expectSound(events.map(({ id }) => id));
  });

  it('drain one outbox: every recorded event is sealed once, and its waiting callers are notified', async () => {
    newTenant();
    const direct: string[] = [];
    const recorded = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const ledger = ledgers[index % 2 === 0 ? 0 : 1];
        const [change, decision] = [anEvent({ type: 'policy.published' }), anEvent()];
        await transaction(ledger.store.db, (tx) => ledger.record(tx, tenantId, change));
        const [sealed] = await Promise.all([
          ledger.sealed(tenantId, change.id),
          ledger.seal(tenantId, decision),
        ]);
        direct.push(decision.id);
        expect(JSON.parse(sealed.canonical).id).toBe(change.id);
        return change.id;
      }),
    );
    await expectSound([...recorded, ...direct]);
    const { rows: left } = await ledgers[0].store.pool.query('SELECT id FROM event_outbox');
    expect(left).toEqual([]);
  });

  it('keep the ledger correct for any interleaving of seals, groups, repeats and recorded changes', async () => {
    const step = fc.record({
      writer: fc.constantFrom(0 as const, 1 as const),
      chain: fc.integer({ min: 0, max: 3 }),
      kind: fc.constantFrom(
        'seal' as const,
        'group' as const,
        'record' as const,
        'repeat' as const,
      ),
      pauseMs: fc.integer({ min: 0, max: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 40 }), async (steps) => {
        newTenant();
        const eventIds: string[] = [];
        const work = steps.map(async ({ writer, chain, kind, pauseMs }) => {
          const ledger = ledgers[writer];
          const event = anEvent({ chain_id: `agent:${chain}` });
          eventIds.push(event.id);
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
          if (kind === 'seal') return ledger.seal(tenantId, event);
          if (kind === 'repeat') {
            return Promise.all([
              ledgers[0].seal(tenantId, event),
              ledgers[1].seal(tenantId, event),
            ]);
          }
          if (kind === 'record') {
            await transaction(ledger.store.db, (tx) => ledger.record(tx, tenantId, event));
            return ledger.sealed(tenantId, event.id);
          }
          const second = anEvent({ chain_id: `agent:${chain}` });
          eventIds.push(second.id);
          return ledger.sealAll(tenantId, [event, second]);
        });
        await Promise.all(work);
        await expectSound(eventIds);
        expect(await ledgers[1].verify(tenantId)).toMatchObject({ ok: true, problem: null });
      }),
      { numRuns: 25 },
    );
  });
});

describe('writers in separate processes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-writers-'));
  const keyFile = join(folder, 'key');
  const children: ChildProcess[] = [];
  beforeAll(() => writeFileSync(keyFile, exportPrivateKey(key)));
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  });

  async function startWriter(count: number) {
    const program = join(import.meta.dirname, '../support/ledger/write-ledger.ts');
    const child = spawn(
      process.execPath,
      [program, database.url, keyFile, tenantId, String(count)],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    children.push(child);
    const told: string[] = [];
    const lines = createInterface({ input: child.stdout });
    const exited = once(child, 'exit');
    await once(lines, 'line');
    lines.on('line', (line) => told.push(line));
    return { child, told, exited };
  }

  it('cause no gaps and no fork, and neither lose nor duplicate an event', async () => {
    newTenant();
    const writers = await Promise.all([startWriter(300), startWriter(300)]);
    const own = Array.from({ length: 100 }, () => anEvent());
    await Promise.all(own.map((event) => ledgers[0].seal(tenantId, event)));
    for (const { exited } of writers) expect(await exited).toEqual([0, null]);
    await expectSound([...writers.flatMap(({ told }) => told), ...own.map(({ id }) => id)]);
    expect((await rows()).length).toBe(700);
  });

  it('lose no event whose sealing was confirmed, even if they are killed', async () => {
    newTenant();
    const [killed, other] = await Promise.all([startWriter(2_000), startWriter(200)]);
    while (killed.told.length < 200) await once(killed.child.stdout ?? killed.child, 'data');
    killed.child.kill('SIGKILL');
    await killed.exited;
    expect(await other.exited).toEqual([0, null]);
    await until('what it had sent is committed', async () => {
      const { rows: busy } = await ledgers[0].store.pool.query(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND state <> 'idle' AND pid <> pg_backend_pid()`,
      );
      return busy.length === 0;
    });
    const ids = new Set((await rows()).map(({ event_id }) => event_id));
    for (const id of [...killed.told, ...other.told]) expect(ids).toContain(id);
    await expectSound([...ids]);
    // Sealing continues.
    expect((await ledgers[0].seal(tenantId, anEvent())).position).toBe(ids.size + 1);
  });
});

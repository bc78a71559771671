import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { masterKeyId, under } from '../control-plane/vault-world.ts';
import { type Program, startProgram } from '../programs/processes.ts';
import { startTwoControlPlanes, type TwoControlPlanes } from './two-control-planes.ts';

interface Fire {
  /** How often the rotation is killed with SIGKILL before it may finish. */
  readonly kills: number;
  /** Number of rows to wrap again, in addition to those that the load creates. */
  readonly rows: number;
}

export interface FireReport {
  readonly kills: number;
  /** Number of requests with the expected response. */
  readonly answered: number;
  /** The requests with another response, as `METHOD path status`. */
  readonly failed: readonly string[];
  /**
   * Number of API keys, created before or during the rotation, that do not work with only the new
   * master key configured.
   */
  readonly lostKeys: number;
  /** Exit code of `vault status`: 0 if nothing needs the old master key. */
  readonly statusAfter: number | null;
  /** The output of a start with only the old master key. */
  readonly oldKeySays: string;
  /** The rotation's events in the tenants' ledgers. */
  readonly events: readonly string[];
  readonly isVerified: boolean;
}

/**
 * Rotates the master key of two control planes that constantly receive requests, and repeatedly
 * kills the rotation while it progresses. Then starts both control planes with only the new master
 * key.
 */
export async function rotateUnderFire({ kills, rows }: Fire): Promise<FireReport> {
  const pair = await startTwoControlPlanes();
  try {
    const next = randomBytes(32).toString('base64');
    const both = under(next, pair.masterKey);
    const cli = (env: Readonly<Record<string, string>>, ...args: string[]) =>
      startProgram('cli/main.ts', { DATABASE_URL: pair.databaseUrl, ...env }, { args });
    await seed(pair, rows);
    const load = startLoad(pair);
    for (const at of [0, 1]) {
      await load.without(at, async () => {
        await pair.programs[at]?.stop();
        await pair.start(at, both);
      });
    }
    for (let kill = 1; kill <= kills; kill++) {
      const program = cli(both, 'vault', 'rotate-master-key');
      const goal = Math.floor(((kill - 1) * rows) / kills);
      await untilWrapped(pair.pool, { program, id: masterKeyId(next), goal });
      await program.kill();
    }
    const last = cli(both, 'vault', 'rotate-master-key');
    if ((await last.exited()) !== 0) throw new Error(`the rotation failed:\n${last.output()}`);
    const statusAfter = await cli(both, 'vault', 'status').exited();
    const { answered, failed, keys } = await load.stop();
    const oldOnly = cli({ SALLYPORT_MASTER_KEY: pair.masterKey }, 'vault', 'status');
    await oldOnly.exited();
    const lostKeys = await keysLost(pair, { next, keys });
    const verified = await pair.call(0, 'GET', '/v1/evidence/verify');
    return {
      kills,
      answered,
      failed,
      lostKeys,
      statusAfter,
      oldKeySays: oldOnly.output(),
      events: await rotationEvents(pair.pool),
      isVerified: verified.status === 200 && verified.body.ok === true,
    };
  } finally {
    await pair.close();
  }
}

async function seed(pair: TwoControlPlanes, rows: number): Promise<void> {
  await pair.call(0, 'POST', '/v1/agents/register', { name: 'a', capabilities: ['*'] });
  const stored = await pair.call(0, 'POST', '/v1/credentials', credential('first'));
  if (stored.status >= 300) throw new Error(`not stored: ${stored.text}`);
  // Inserts copies of a real envelope of the control plane. For this test, only their number
  // matters.
  await pair.pool.query(
    `INSERT INTO evidence_salt (tenant_id, event_id, sealed)
     SELECT tenant_id || n, kid, sealed FROM (SELECT * FROM signing_key LIMIT 1) AS any_key,
            generate_series(1, $1) AS n`,
    [rows],
  );
}

const credential = (name: string) => ({
  name,
  secret: `secret of ${name}`,
  inject: { in: 'bearer' },
  bind: { tools: ['x.*'], hosts: ['x.example'] },
});

/**
 * Starts two concurrent callers that write and read secrets through the control planes that are up.
 */
function startLoad(pair: TwoControlPlanes) {
  const up = new Set([0, 1]);
  const inFlight = [0, 0];
  const failed: string[] = [];
  const keys: string[] = [];
  let answered = 0;
  let stopped = false;
  const ask = async (turn: number, method: string, path: string, body?: object) => {
    const at = [...up][turn % up.size] ?? 0;
    inFlight[at] = (inFlight[at] ?? 0) + 1;
    try {
      const answer = await pair.call(at, method, path, body);
      if (answer.status < 300) answered += 1;
      else failed.push(`${method} ${path} ${answer.status} ${answer.text.slice(0, 200)}`);
      return answer.body;
    } finally {
      inFlight[at] = (inFlight[at] ?? 0) - 1;
    }
  };
  const round = async (turn: number, name: string) => {
    const made = await ask(turn, 'POST', '/v1/keys', { name, role: 'auditor' });
    keys.push(String(made.key));
    await ask(turn, 'POST', '/v1/credentials', credential(name.slice(0, 3)));
    const action = { tool: 'x.read', resource: 'r', args: { name }, agent_id: '1', user_id: 'u' };
    // The second request goes to the other control plane, which decrypts the stored response.
    for (const by of [turn, turn + 1]) {
      await ask(by, 'POST', '/v1/actions/preflight', { ...action, idempotency_key: name });
    }
  };
  const caller = async (which: number) => {
    for (let turn = which; !stopped; turn++) {
      await round(turn, `c${which}-${turn}`).catch((error: Error) => failed.push(String(error)));
      // Limits the rate: the load only has to be continuous.
      await delay(25);
    }
  };
  const callers = [caller(0), caller(1)];
  return {
    /** Takes one control plane out of service while `work` runs, as a load balancer does. */
    async without(at: number, work: () => Promise<void>) {
      up.delete(at);
      while ((inFlight[at] ?? 0) > 0) await delay(5);
      await work();
      up.add(at);
    },
    async stop() {
      stopped = true;
      await Promise.all(callers);
      return { answered, failed, keys };
    },
  };
}

interface Progress {
  readonly program: Program;
  readonly id: string;
  readonly goal: number;
}

/**
 * Resolves when at least `goal` rows are under the new key; for a goal of 0, when the rotation has
 * begun.
 */
async function untilWrapped(pool: Pool, { program, id, goal }: Progress): Promise<void> {
  let ended = false;
  void program.exited().then(() => {
    ended = true;
  });
  for (;;) {
    const { rows } = await pool.query<{ begun: boolean; wrapped: number }>(
      `SELECT EXISTS (SELECT FROM vault_key WHERE id = $1) AS begun,
              (SELECT count(*)::int FROM evidence_salt WHERE strpos(sealed, $1) > 0) AS wrapped`,
      [id],
    );
    if (rows[0]?.begun === true && rows[0].wrapped >= goal) return;
    if (ended) throw new Error(`the rotation ended:\n${program.output()}`);
    // Counting uses one core. The pause leaves enough processor time for the rotation.
    await delay(50);
  }
}

async function keysLost(
  pair: TwoControlPlanes,
  { next, keys }: { readonly next: string; readonly keys: readonly string[] },
): Promise<number> {
  for (const at of [0, 1]) {
    await pair.programs[at]?.stop();
    await pair.start(at, { SALLYPORT_MASTER_KEY: next, SALLYPORT_MASTER_KEY_PREVIOUS: '' });
  }
  let lost = 0;
  const toAsk = keys.entries();
  const asker = async () => {
    for (const [index, key] of toAsk) {
      const { status } = await pair.call(index % 2, 'GET', '/v1/keys', undefined, key);
      if (status !== 200) lost += 1;
    }
  };
  // All callers share one iterator, so each key is used once.
  await Promise.all(Array.from({ length: 8 }, asker));
  return lost;
}

async function rotationEvents(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ type: string }>(
    `SELECT type FROM evidence_row WHERE tenant_id = 'default' AND type LIKE 'master_key.%' ORDER BY position`,
  );
  return rows.map(({ type }) => type);
}

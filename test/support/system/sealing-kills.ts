import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { connectControlPlane } from '../../../proxy/control-plane/client.ts';
import { enrol } from '../../../proxy/control-plane/enrolment.ts';
import { Spool } from '../../../proxy/spool/spool.ts';
import { Uploader } from '../../../proxy/spool/uploader.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { seeded } from '../base/seeded.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';

interface SealingKills {
  readonly times: number;
  readonly seed: number;
  /**
   * After this time, the control plane is not killed again. The requests made until then are still
   * verified.
   */
  readonly withinMs?: number;
}

export interface SealingReport {
  readonly kills: number;
  /** Number of kills while the program was starting. */
  readonly atStart: number;
  /**
   * Number of requests whose response reported a sealed event, or a change that has a sealed event.
   */
  readonly told: number;
  /**
   * Number of requests whose response was lost or was a refusal, and how many of these requests
   * have an event in the ledger.
   */
  readonly untold: number;
  readonly untoldSealed: number;
  /** Number of the sidecar's records, and number of its uploads that failed and were repeated. */
  readonly uploaded: number;
  readonly uploadFailures: number;
  readonly rows: number;
  readonly batches: number;
  readonly restartMs: { readonly median: number; readonly most: number };
  /** The expectations that were not met. */
  readonly wrong: readonly string[];
}

const ownerKey = formatApiKey('sealingKillsOwnerKey0000000000');
const tenantId = 'default';

/** Starts one control plane on a real database. It is killed and started again. */
async function startVictim() {
  const database = await freshDatabase();
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'sealing-kills-'));
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const env = {
    NODE_COMPILE_CACHE: join(tmpdir(), 'sallyport-tests-compiled'),
    SALLYPORT_API_PORT: String(port),
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_DEV_KEYS: `${ownerKey}=${tenantId}:owner:gateway:owner`,
    SALLYPORT_MASTER_KEY: randomBytes(32).toString('base64'),
    SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
    // The control plane verifies its ledger at every start and then every second, because
    // verification must also survive kills.
    SALLYPORT_VERIFY_MS: '1000',
    DATABASE_URL: database.url,
  };
  const logFile = join(dataDir, 'log');
  let program: Program = startProgram('control-plane/main.ts', env, { logFile });
  const api = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return {
    origin,
    database,
    dataDir,
    api,
    kill: () => program.kill(),
    isReady: () => until('it is ready', () => answersOk(`${origin}/readyz`), 120_000),
    start() {
      program = startProgram('control-plane/main.ts', env, { logFile });
    },
    async close() {
      await program.kill();
      fs.rmSync(dataDir, { recursive: true, force: true });
      await database.drop();
    },
  };
}
type Victim = Awaited<ReturnType<typeof startVictim>>;

/**
 * A request, identified by a mark in its event, and whether the response reported the event as
 * sealed.
 */
interface Asked {
  readonly mark: string;
  readonly eventHash: string | undefined;
  readonly isTold: boolean;
}

/** Sends requests repeatedly, each with a new mark, regardless of whether they succeed. */
function startWriter(victim: Victim, name: string, isOver: () => boolean) {
  const asked: Asked[] = [];
  const ask = async (mark: string): Promise<Asked> => {
    try {
      const { status, body } =
        name === 'changes'
          ? await victim.api('PUT', '/v1/runtime/bindings/changing', binding(mark))
          : await victim.api('POST', '/v1/evidence/events', {
              type: 'custom.mark',
              chain_id: `custom:${name}`,
              data: { mark },
            });
      const eventHash = typeof body.event_hash === 'string' ? body.event_hash : undefined;
      return { mark, eventHash, isTold: status === 200 };
    } catch {
      await delay(20);
      return { mark, eventHash: undefined, isTold: false };
    }
  };
  const running = (async () => {
    for (let n = 1; !isOver(); n++) asked.push(await ask(`${name}-${n}`));
  })();
  return { asked, running };
}

const binding = (mark: string) => ({
  protocol: 'http',
  host: 'api.example',
  method: 'POST',
  path: `/${mark}`,
  tool: 'marked',
});

/**
 * Starts a sidecar's spool and uploader. The uploader repeats an upload until it is acknowledged.
 */
async function startSidecar(victim: Victim, isOver: () => boolean) {
  const agent = await victim.api('POST', '/v1/agents/register', {
    name: 'bot',
    capabilities: ['*'],
  });
  const agentId = String(agent.body.agent_id);
  const token = await victim.api('POST', '/v1/sidecars/tokens', {
    agent_id: agentId,
    user_id: 'user_1',
  });
  const dataDir = join(victim.dataDir, 'sidecar');
  fs.mkdirSync(dataDir);
  const enrolment = await enrol({
    dataDir,
    controlPlaneUrl: victim.origin,
    token: String(token.body.token),
    version: 'test',
  });
  const { sidecarId } = enrolment.identity;
  const spool = Spool.open({ folder: join(dataDir, 'spool'), log: silentLog, fsync: false });
  const { upload } = connectControlPlane({ url: victim.origin, enrolment, clock: systemClock });
  const key = enrolment.signingKey;
  const uploader = new Uploader({ spool, sidecarId, key, upload, log: silentLog });
  const ids: string[] = [];
  const running = (async () => {
    while (!isOver()) {
      const id = newId('ev', Date.now());
      await spool.append({
        event: {
          id,
          type: 'decision',
          chain_id: `agent:${agentId}`,
          agent_id: agentId,
          occurred_at: new Date().toISOString(),
          source: `sidecar:${sidecarId}`,
          user_id: 'user_1',
          tool: 'pay',
          resource: 'invoice:1',
          decision: 'allow',
          reason_code: 'test.allow',
          data: {},
        },
      });
      ids.push(`sidecar:${sidecarId}/${id}`);
      await delay(10);
    }
  })();
  return { ids, spool, uploader, running };
}

/**
 * Kills the control plane repeatedly with SIGKILL while four writers seal events: two through the
 * API, one through changes that record an event, and one sidecar that repeats its uploads. Then
 * compares all responses with the ledger.
 */
export async function killWhileSealing({
  times,
  seed,
  withinMs = 12 * 60_000,
}: SealingKills): Promise<SealingReport> {
  const random = seeded(seed);
  const victim = await startVictim();
  try {
    await victim.isReady();
    let over = false;
    const isOver = () => over;
    const sidecar = await startSidecar(victim, isOver);
    const writers = ['one', 'two', 'changes'].map((name) => startWriter(victim, name, isOver));
    const told = () => writers.flatMap(({ asked }) => asked).filter(({ isTold }) => isTold).length;
    const restarts: number[] = [];
    let [kills, atStart] = [0, 0];
    const deadline = performance.now() + withinMs;
    while (kills < times && performance.now() < deadline) {
      const before = told();
      await until('something is sealed', () => told() > before, 120_000);
      await delay(random() * 150);
      await victim.kill();
      kills++;
      while (random() < 0.3 && kills < times) {
        victim.start();
        await delay(random() * (restarts.at(-1) ?? 500));
        await victim.kill();
        kills++;
        atStart++;
      }
      const begun = performance.now();
      victim.start();
      await victim.isReady();
      restarts.push(performance.now() - begun);
    }
    const before = told();
    await until('something is sealed', () => told() > before, 120_000);
    over = true;
    await Promise.all([sidecar.running, ...writers.map(({ running }) => running)]);
    await until('the spool is uploaded', () => sidecar.spool.depth === 0, 120_000);
    await sidecar.uploader.close();
    await sidecar.spool.close();
    const asked = writers.flatMap((writer) => writer.asked);
    const held = await holdAgainst(victim, { asked, uploaded: sidecar.ids });
    const sorted = restarts.toSorted((a, b) => a - b).map(Math.round);
    const restartMs = { median: sorted[sorted.length >> 1] ?? 0, most: sorted.at(-1) ?? 0 };
    const uploadFailures = sidecar.uploader.failures;
    return { kills, atStart, restartMs, uploadFailures, uploaded: sidecar.ids.length, ...held };
  } finally {
    await victim.close();
  }
}

interface Row {
  readonly event_id: string;
  readonly type: string;
  readonly event_hash: string;
  readonly canonical: string;
}

async function holdAgainst(
  victim: Victim,
  { asked, uploaded }: { readonly asked: readonly Asked[]; readonly uploaded: readonly string[] },
) {
  const client = new pg.Client({ connectionString: victim.database.url });
  await client.connect();
  const outbox = async () => (await client.query('SELECT 1 FROM event_outbox')).rows.length === 0;
  await until('the outbox is empty', outbox, 120_000);
  const { rows } = await client.query<Row>(
    'SELECT event_id, type, event_hash, canonical FROM evidence_row ORDER BY position',
  );
  const { rows: heads } = await client.query('SELECT 1 FROM evidence_batch');
  await client.end();
  const wrong: string[] = [];
  const sealed = Map.groupBy(rows, markOf);
  for (const { mark, isTold, eventHash } of asked) {
    const found = sealed.get(mark) ?? [];
    if (isTold && found.length !== 1) wrong.push(`${mark}: told, and ${found.length} times sealed`);
    if (found.length > 1) wrong.push(`${mark}: ${found.length} times sealed`);
    if (eventHash !== undefined && found[0]?.event_hash !== eventHash) {
      wrong.push(`${mark}: sealed as another than was told`);
    }
  }
  const ids = Map.groupBy(rows, ({ event_id: id }) => id);
  for (const id of uploaded) {
    const count = ids.get(id)?.length ?? 0;
    if (count !== 1) wrong.push(`${id}: ${count} times sealed`);
  }
  const report = await victim.api('GET', '/v1/evidence/verify');
  if (report.body.ok !== true) wrong.push(`does not verify: ${JSON.stringify(report.body)}`);
  if (report.body.events !== rows.length) wrong.push('other rows are verified than are there');
  const incidents = rows.filter(({ type }) =>
    /^chain_|conflict|rolled_back|_gap|_refused/.test(type),
  );
  wrong.push(...incidents.map(({ canonical }) => `an incident: ${canonical}`));
  const untold = asked.filter(({ isTold }) => !isTold);
  return {
    told: asked.length - untold.length,
    untold: untold.length,
    untoldSealed: untold.filter(({ mark }) => sealed.has(mark)).length,
    rows: rows.length,
    batches: heads.length,
    wrong,
  };
}

/** Returns the mark in an event, from its data or from the path of a binding. */
function markOf({ canonical, event_id: id }: Row): string {
  return /\b(?:one|two|changes)-\d+\b/.exec(canonical)?.[0] ?? id;
}

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { runTour } from '../../../cli/demo/run-tour.ts';
import { buildWorld, type World } from '../../../cli/demo/world.ts';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

describe('the demo with separate processes on real Postgres and Redis', () => {
  let separate: Separate;
  let world: World;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let redis: Awaited<ReturnType<typeof startRedis>>;
  let pool: pg.Pool;
  const caDir = fs.mkdtempSync(join(tmpdir(), 'upstream-ca-'));

  beforeAll(async () => {
    expect(inject('postgresUrl')).toBeTruthy();
    database = await freshDatabase();
    redis = await startRedis();
    pool = new pg.Pool({ connectionString: database.url, max: 2 });
    const upstreamCa = loadAuthority({ dataDir: caDir, clock: systemClock });
    const caPath = join(caDir, 'upstream-ca.pem');
    fs.writeFileSync(caPath, upstreamCa.certPem);
    separate = await startSeparate({
      databaseUrl: database.url,
      redisUrl: redis.url,
      sidecarEnv: { NODE_EXTRA_CA_CERTS: caPath, SALLYPORT_HOLD_MS: '4000' },
    });
    const agentCaPath = join(caDir, 'agent-ca.pem');
    const sidecarCa = fs.readFileSync(separate.caPath, 'utf8');
    fs.writeFileSync(agentCaPath, `${sidecarCa}\n${upstreamCa.certPem}`);
    const platform = {
      origin: separate.origin,
      ownerKey: separate.ownerKey,
      agentId: separate.agentId,
      adminUrl: separate.adminUrl,
      proxySettings: [
        ['HTTP_PROXY', separate.proxyUrl],
        ['HTTPS_PROXY', separate.proxyUrl],
        ['NODE_USE_ENV_PROXY', '1'],
        ['NODE_EXTRA_CA_CERTS', agentCaPath],
      ] as const,
      sql: async (text: string, values: readonly unknown[]) =>
        (await pool.query(text, [...values])).rows as Record<string, unknown>[],
    };
    world = await buildWorld(platform, upstreamCa);
    told = [];
    kept = await runTour(world, platform, (line) => told.push(line));
  }, 120_000);

  let kept = false;
  let told: string[] = [];

  afterAll(async () => {
    await world?.close();
    await separate?.close();
    await pool?.end();
    await redis?.stop();
    await database?.drop();
    fs.rmSync(caDir, { recursive: true });
  });

  it('passes every step of the tour', () => {
    expect(kept, told.join('\n')).toBe(true);
    expect(told.filter((line) => line.startsWith('✓'))).toHaveLength(11);
  });
});

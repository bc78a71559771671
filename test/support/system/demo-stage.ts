import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { runTour } from '../../../cli/demo/run-tour.ts';
import { buildWorld, type World } from '../../../cli/demo/world.ts';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { startRedis } from '../programs/redis.ts';
import type { Launch } from './control-plane.ts';
import { type Separate, startSeparate } from './separate.ts';

/** Control plane and sidecar as separate processes, for the tour of `sallyport demo`. */
export interface DemoStage {
  readonly separate: Separate;
  /** Runs the tour; returns its lines, and whether each step had the expected result. */
  run(): Promise<{ readonly succeeded: boolean; readonly lines: readonly string[] }>;
  close(): Promise<void>;
}

export async function startDemoStage(
  options: { readonly launch?: Launch } = {},
): Promise<DemoStage> {
  const database = await freshDatabase();
  const redis = await startRedis();
  const pool = new pg.Pool({ connectionString: database.url, max: 2 });
  const caDir = fs.mkdtempSync(join(tmpdir(), 'upstream-ca-'));
  const upstreamCa = loadAuthority({ dataDir: caDir, clock: systemClock });
  const caPath = join(caDir, 'upstream-ca.pem');
  fs.writeFileSync(caPath, upstreamCa.certPem);
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { NODE_EXTRA_CA_CERTS: caPath, SALLYPORT_HOLD_MS: '4000' },
    ...options,
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
  let world: World | undefined;
  return {
    separate,
    async run() {
      world = await buildWorld(platform, upstreamCa);
      const lines: string[] = [];
      const succeeded = await runTour(world, platform, (line) => lines.push(line));
      return { succeeded, lines };
    },
    async close() {
      await world?.close();
      await separate.close();
      await pool.end();
      await redis.stop();
      await database.drop();
      fs.rmSync(caDir, { recursive: true });
    },
  };
}

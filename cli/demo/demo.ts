import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/clock.ts';
import { startEmbedded } from '../embedded.ts';
import { proxySettings, stopSignal } from '../up.ts';
import { runTour } from './run-tour.ts';
import { buildWorld } from './world.ts';

/** `sallyport demo`: the main job, step by step, on real parts in a folder of its own. */
export async function demo({ once }: { readonly once: boolean }): Promise<number> {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
  const embedded = await startEmbedded({
    ...process.env,
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_HOLD_MS: '4000',
  });
  const { origin, ownerKey, sidecar, controlPlane } = embedded;
  const platform = {
    origin,
    ownerKey,
    agentId: sidecar.identity.agentId,
    adminUrl: sidecar.adminUrl,
    proxySettings: proxySettings(sidecar),
    sql: async (text: string, values: readonly unknown[]) =>
      (await controlPlane.services.pool.query(text, [...values])).rows as Record<string, unknown>[],
  };
  const upstreamCa = await loadAuthority({
    dataDir: join(dataDir, 'upstreams'),
    clock: systemClock,
  });
  const world = await buildWorld(platform, upstreamCa);
  try {
    const kept = await runTour(world, platform, console.log);
    if (!once) {
      console.log(
        `\nStill running: ${origin}/api/docs   key ${ownerKey}\nThe agent's way out: ${sidecar.proxyUrl}. Stop with Ctrl-C.`,
      );
      await stopSignal();
    }
    return kept ? 0 : 1;
  } finally {
    await world.close();
    await embedded.close();
    fs.rmSync(dataDir, { recursive: true, force: true });
  }
}

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import type { Sidecar } from '../../proxy/main.ts';
import { type Authority, loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { startEmbedded } from '../embedded/start-embedded.ts';
import { agentEnvironment } from '../run/agent-environment.ts';
import { stopSignal } from '../support/stop-signal.ts';
import { runTour } from './run-tour.ts';
import { buildWorld } from './world.ts';

/** Makes this process, which contains the sidecar, trust the CA of the demo's upstreams. */
function trustUpstreams({ certPem }: Authority): void {
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), certPem]);
}

/**
 * Makes the agent also trust the upstreams, because passthrough tunnels present the upstreams' own
 * certificates.
 */
function agentSettings({ proxyUrl, caPath }: Sidecar, { certPem }: Authority) {
  fs.appendFileSync(caPath, certPem);
  return agentEnvironment({ proxyUrl, addedCaPath: caPath, wholeCaPath: caPath }).set;
}

/** `sallyport demo`: runs the tour on real parts in a temporary folder. */
export async function demo({ once = false }: { readonly once?: boolean }): Promise<number> {
  const stopped = stopSignal();
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'sallyport-demo-'));
  const upstreamCa = loadAuthority({ dataDir: join(dataDir, 'upstreams'), clock: systemClock });
  trustUpstreams(upstreamCa);
  const embedded = await startEmbedded({
    ...process.env,
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_HOLD_MS: '4000',
    SALLYPORT_LOG_LEVEL: 'silent',
  });
  const { origin, ownerKey, sidecar, controlPlane } = embedded;
  const platform = {
    origin,
    ownerKey,
    agentId: sidecar.identity.agentId,
    adminUrl: sidecar.adminUrl,
    proxySettings: agentSettings(sidecar, upstreamCa),
    sql: async (text: string, values: readonly unknown[]) =>
      (await controlPlane.services.pool.query(text, [...values])).rows as Record<string, unknown>[],
  };
  const world = await buildWorld(platform, upstreamCa);
  try {
    const succeeded = await Promise.race([
      stopped.then(() => undefined),
      runTour(world, platform, console.log),
    ]);
    if (succeeded === undefined) return 130;
    if (!once) {
      console.log(
        `\nStill running: ${origin}/api/docs   key ${ownerKey}\nThe agent's proxy: ${sidecar.proxyUrl}. Stop with Ctrl-C.`,
      );
      await stopped;
    }
    return succeeded ? 0 : 1;
  } finally {
    await world.close();
    await embedded.close();
    fs.rmSync(dataDir, { recursive: true, force: true });
  }
}

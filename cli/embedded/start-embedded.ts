import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import { readConfig as readControlPlaneConfig } from '../../control-plane/platform/config/config.ts';
import { restrictToOwner } from '../../control-plane/platform/store/restrict-to-owner.ts';
import { type Sidecar, startSidecar } from '../../proxy/main.ts';
import { readConfig as readSidecarConfig } from '../../proxy/settings/config.ts';
import type { DecisionSink } from '../../proxy/telemetry/decision-log.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { generateApiKey } from '../../shared/crypto/api-key.ts';
import { portsOf } from '../../shared/upstream/own-ports.ts';
import { recordRunning } from '../support/running-instance.ts';
import { assertKnown, sidecarFolder, tokenFor } from './sidecar-identity.ts';

/** Control plane and sidecar in one process, connected by an in-process bus. */
export interface Embedded {
  /** `http://127.0.0.1:<port>`; the API is below `/api`. */
  readonly origin: string;
  readonly ownerKey: string;
  readonly controlPlane: ControlPlane;
  readonly sidecar: Sidecar;
  /** The reason why the sidecar refuses every call; undefined if it is ready. */
  readonly revocation: string | undefined;
  close(): Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

const readFile = (path: string) => fs.readFileSync(path, 'utf8');

/**
 * Starts control plane and sidecar in this process. State is kept in the data directory: database,
 * keys, evidence spool and the local certificate authority.
 */
export async function startEmbedded(
  given: Environment,
  { onDecision }: { readonly onDecision?: DecisionSink['onDecision'] } = {},
): Promise<Embedded> {
  const env = withDefaults(given);
  exemptOwnHosts(env);
  const config = readControlPlaneConfig({ env, readFile });
  // Validates the sidecar's settings before a database is created.
  readSidecarConfig({ env, readFile });
  const controlPlane = await startControlPlane(config);
  try {
    const ownerKey = firstKey(config.devKeys);
    const folder = sidecarFolder(config.dataDir, env);
    const { dataDir } = config;
    const token = await tokenFor(folder, { origin: controlPlane.origin, ownerKey, dataDir, env });
    const sidecarEnv = {
      ...env,
      SALLYPORT_DATA_DIR: folder,
      SALLYPORT_CONTROL_PLANE_URL: controlPlane.origin,
      SALLYPORT_ENROLMENT_TOKEN: token,
    };
    await assertKnown(controlPlane.services, { folder, dataDir });
    const sidecar = await startSidecar(readSidecarConfig({ env: sidecarEnv, readFile }), {
      bus: controlPlane.bus,
      onDecision,
    });
    const { ownPorts } = controlPlane.services.upstream.guard;
    for (const port of portsOf([sidecar.proxyUrl, sidecar.adminUrl])) ownPorts.add(port);
    const { proxyUrl, adminUrl } = sidecar;
    const { origin } = controlPlane;
    const removeRecord = recordRunning(
      { origin, ownerKey, proxyUrl, adminUrl, sidecarFolder: resolve(folder) },
      env,
    );
    const close = async () => {
      removeRecord();
      await sidecar.close();
      await controlPlane.close();
    };
    const revocation = await untilReady(sidecar).catch(async (error: unknown) => {
      removeRecord();
      await sidecar.close();
      throw error;
    });
    return { origin: controlPlane.origin, ownerKey, controlPlane, sidecar, revocation, close };
  } catch (error) {
    await controlPlane.close();
    throw error;
  }
}

function withDefaults(given: Environment): Environment {
  const dataDir = given.SALLYPORT_DATA_DIR ?? '.sallyport';
  // The folder must be private before the first key is written into it.
  restrictToOwner(dataDir);
  const keysGiven = given.SALLYPORT_DEV_KEYS ?? given.SALLYPORT_DEV_KEYS_FILE;
  return {
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_LOG_LEVEL: 'warn',
    // Network namespaces exist on Linux only.
    SALLYPORT_REDIRECT_SOCKET: process.platform === 'linux' ? '1' : '0',
    ...(keysGiven === undefined ? { SALLYPORT_DEV_KEYS: bootstrapKey(dataDir, given) } : {}),
    ...given,
  };
}

/**
 * Exempts the hosts of the control plane and the sidecar from the proxy. Otherwise, in a shell that
 * was set up for an agent (`NODE_USE_ENV_PROXY`), `fetch` would send messages between the two
 * through the sidecar.
 */
function exemptOwnHosts({ SALLYPORT_API_HOST: apiHost }: Environment): void {
  const given = process.env.no_proxy ?? process.env.NO_PROXY;
  const own = ['127.0.0.1', 'localhost', '[::1]', apiHost];
  process.env.no_proxy = [given, ...own].filter((host) => host !== undefined).join(',');
}

const readyWithinMs = 30_000;

/**
 * Waits for the first heartbeat, because calls are denied until then. Returns the reason if the
 * sidecar was revoked or its agent disabled. Does not throw in this case, because an operator needs
 * the API to undo the change.
 */
async function untilReady({ adminUrl }: Sidecar): Promise<string | undefined> {
  const giveUpAt = performance.now() + readyWithinMs;
  for (;;) {
    const response = await fetch(`${adminUrl}/readyz`);
    if (response.ok) return undefined;
    const { code, reasons } = (await response.json()) as {
      readonly code?: string;
      readonly reasons: readonly string[];
    };
    if (code !== undefined) return reasons.join('; ');
    if (performance.now() > giveUpAt) {
      const why = reasons.map((reason) => reason.replace(/\.$/, '')).join('; ');
      throw new SettingsError(
        `The sidecar did not become ready within 30 s: ${why}. See the log above.`,
      );
    }
    await delay(50);
  }
}

/** The owner's key: created once, and stored in the data directory with mode 0600. */
function bootstrapKey(dataDir: string, env: Environment): string {
  const path = join(dataDir, 'bootstrap-key');
  if (!fs.existsSync(path)) {
    fs.writeFileSync(path, `${generateApiKey()}\n`, { mode: 0o600 });
  }
  return `${readKey(path)}=${env.SALLYPORT_TENANT ?? 'default'}:owner:gateway:owner`;
}

function readKey(path: string): string {
  const remedy = 'Remove it, and the next start makes another owner key.';
  let text: string;
  try {
    text = readFile(path).trim();
  } catch (cause) {
    throw new SettingsError(`The owner's API key ${path} cannot be read. ${remedy}`, { cause });
  }
  if (/^apk_[\w-]{4,}$/.test(text)) return text;
  throw new SettingsError(`The file ${path} does not hold an API key (apk_…). ${remedy}`);
}

function firstKey(devKeys: string): string {
  return devKeys.split('=')[0] ?? '';
}

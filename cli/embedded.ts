import fs from 'node:fs';
import { join } from 'node:path';
import { readConfig as readControlPlaneConfig } from '../control-plane/config.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/main.ts';
import { readConfig as readSidecarConfig } from '../proxy/config.ts';
import { type Sidecar, startSidecar } from '../proxy/main.ts';
import { registerAgent } from '../shared/contract/agents.ts';
import { createClient } from '../shared/contract/client.ts';
import { createEnrolmentToken } from '../shared/contract/sidecars.ts';
import { generateApiKey } from '../shared/crypto/api-key.ts';

/** Both programs in one process, on a bus of their own. */
export interface Embedded {
  /** `http://127.0.0.1:<port>`; the API is below `/api`. */
  readonly origin: string;
  readonly ownerKey: string;
  readonly controlPlane: ControlPlane;
  readonly sidecar: Sidecar;
  close(): Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

const readFile = (path: string) => fs.readFileSync(path, 'utf8');

/**
 * Starts control plane and sidecar in this process (design 1, "embedded"). State is kept in the
 * data directory: database, keys, evidence spool and the local certificate authority.
 */
export async function startEmbedded(given: Environment): Promise<Embedded> {
  const env = withDefaults(given);
  const config = readControlPlaneConfig({ env, readFile });
  const controlPlane = await startControlPlane(config);
  try {
    const ownerKey = firstKey(config.devKeys);
    const token = await enrolmentToken(controlPlane.origin, ownerKey, env);
    const sidecarEnv = {
      ...env,
      SALLYPORT_CONTROL_PLANE_URL: controlPlane.origin,
      SALLYPORT_ENROLMENT_TOKEN: token,
    };
    const sidecar = await startSidecar(readSidecarConfig({ env: sidecarEnv, readFile }), {
      bus: controlPlane.bus,
    });
    const close = async () => {
      await sidecar.close();
      await controlPlane.close();
    };
    return { origin: controlPlane.origin, ownerKey, controlPlane, sidecar, close };
  } catch (error) {
    await controlPlane.close();
    throw error;
  }
}

function withDefaults(given: Environment): Environment {
  const dataDir = given.SALLYPORT_DATA_DIR ?? '.sallyport';
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const keysGiven = given.SALLYPORT_DEV_KEYS ?? given.SALLYPORT_DEV_KEYS_FILE;
  return {
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_LOG_LEVEL: 'warn',
    ...(keysGiven === undefined ? { SALLYPORT_DEV_KEYS: bootstrapKey(dataDir, given) } : {}),
    ...given,
  };
}

/** The owner's key of a laptop: made once, kept in the data directory for its owner's eyes only. */
function bootstrapKey(dataDir: string, env: Environment): string {
  const path = join(dataDir, 'bootstrap-key');
  if (!fs.existsSync(path)) {
    fs.writeFileSync(path, `${generateApiKey()}\n`, { mode: 0o600 });
  }
  return `${readFile(path).trim()}=${env.SALLYPORT_TENANT ?? 'default'}:owner:gateway:owner`;
}

function firstKey(devKeys: string): string {
  return devKeys.split('=')[0] ?? '';
}

/** Registers the agent that the sidecar acts for, if none is named, and admits the sidecar. */
async function enrolmentToken(origin: string, ownerKey: string, env: Environment): Promise<string> {
  const client = createClient({
    baseUrl: `${origin}/api`,
    authorization: () => `Bearer ${ownerKey}`,
  });
  const agentId = env.SALLYPORT_AGENT_ID ?? (await demoAgent(client));
  const { token } = await client.call(createEnrolmentToken, {
    body: {
      agent_id: agentId,
      user_id: env.SALLYPORT_USER_ID ?? 'demo-user',
      environment: (env.SALLYPORT_ENVIRONMENT ?? 'prod') as 'prod',
    },
  });
  return token;
}

async function demoAgent(client: ReturnType<typeof createClient>): Promise<string> {
  const agent = await client.call(registerAgent, {
    body: { name: 'demo', capabilities: ['*'], goal: 'Help customers' },
  });
  return String(agent.agent_id);
}

import { join } from 'node:path';
import type { Services } from '../../control-plane/core/services.ts';
import { claimedRows } from '../../control-plane/platform/signed-store/claimed-rows.ts';
import type { Identity } from '../../proxy/base/identity.ts';
import { enrolledIdentity } from '../../proxy/control-plane/enrolment-file.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { registerAgent } from '../../shared/contract/agents.ts';
import { createClient } from '../../shared/contract/base/client.ts';
import { createEnrolmentToken } from '../../shared/contract/sidecars.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type Client = ReturnType<typeof createClient>;
type RequestedIdentity = {
  readonly [Field in 'tenantId' | 'agentId' | 'userId' | 'environment']:
    | Identity[Field]
    | undefined;
};

const defaultUser = 'demo-user';
const defaultEnvironment = 'prod';

/**
 * The folder of the sidecar that acts for the tenant, agent, user and environment that the settings
 * name. The first identity uses the data directory itself; each further identity has its own
 * subfolder, because a sidecar keeps its enrolled identity.
 */
export function sidecarFolder(dataDir: string, env: Environment): string {
  const requested = requestedIdentity(env);
  const first = enrolledIdentity(dataDir);
  if (first === undefined || isSame(first, requested)) return dataDir;
  const { tenantId = first.tenantId, userId = defaultUser } = requested;
  const { environment = defaultEnvironment } = requested;
  const agentId = requested.agentId ?? firstAgent(first, requested) ?? 'demo';
  const name = sha256(JSON.stringify([tenantId, agentId, userId, environment])).slice(7, 23);
  return join(dataDir, 'sidecars', name);
}

function requestedIdentity(env: Environment): RequestedIdentity {
  return {
    tenantId: env.SALLYPORT_TENANT,
    agentId: env.SALLYPORT_AGENT_ID,
    userId: env.SALLYPORT_USER_ID,
    environment: env.SALLYPORT_ENVIRONMENT as Identity['environment'] | undefined,
  };
}

/** A missing setting matches every identity. */
function isSame(
  identity: Identity,
  { tenantId, agentId, userId, environment }: RequestedIdentity,
): boolean {
  return (
    (tenantId ?? identity.tenantId) === identity.tenantId &&
    (agentId ?? identity.agentId) === identity.agentId &&
    (userId ?? identity.userId) === identity.userId &&
    (environment ?? identity.environment) === identity.environment
  );
}

/** The agent of the data directory's first identity, if this identity belongs to the same tenant. */
function firstAgent(
  first: Identity | undefined,
  { tenantId }: RequestedIdentity,
): string | undefined {
  return first !== undefined && (tenantId ?? first.tenantId) === first.tenantId
    ? first.agentId
    : undefined;
}

/**
 * An enrolment token for the identity of the settings; undefined if the folder's sidecar has
 * enrolled already. Registers the demo agent if the settings name no agent.
 */
export async function tokenFor(
  folder: string,
  {
    origin,
    ownerKey,
    dataDir,
    env,
  }: {
    readonly origin: string;
    readonly ownerKey: string;
    readonly dataDir: string;
    readonly env: Environment;
  },
): Promise<string | undefined> {
  if (enrolledIdentity(folder) !== undefined) return undefined;
  const client = createClient({
    baseUrl: `${origin}/api`,
    authorization: () => `Bearer ${ownerKey}`,
  });
  const requested = requestedIdentity(env);
  const { agentId, userId = defaultUser, environment = defaultEnvironment } = requested;
  const agent =
    agentId ?? firstAgent(enrolledIdentity(dataDir), requested) ?? (await demoAgent(client));
  try {
    const body = { agent_id: agent, user_id: userId, environment };
    const { token } = await client.call(createEnrolmentToken, { body });
    return token;
  } catch (error) {
    if (!(error instanceof GatewayError) || agentId === undefined) throw error;
    throw new SettingsError(
      `SALLYPORT_AGENT_ID: a sidecar cannot act for agent ${JSON.stringify(agentId)}: ${error.message} Start without this setting, register the agent with POST /v1/agents/register, then start again with the agent_id of the response.`,
      { cause: error },
    );
  }
}

/**
 * Throws if the database does not know the folder's sidecar, because the control plane would refuse
 * its requests.
 */
export async function assertKnown(
  { db }: Pick<Services, 'db'>,
  { folder, dataDir }: { readonly folder: string; readonly dataDir: string },
): Promise<void> {
  const identity = enrolledIdentity(folder);
  if (identity === undefined) return;
  const { tenantId, sidecarId: id } = identity;
  if ((await claimedRows(db, 'sidecar').count({ tenantId, id })) > 0) return;
  throw new SettingsError(
    `The data directory ${dataDir} has a sidecar (${id}) that its database does not know: the database was removed or replaced. ` +
      'Restore the data directory from a backup, or remove all of it to start empty.',
  );
}

async function demoAgent(client: Client): Promise<string> {
  const agent = await client.call(registerAgent, {
    body: { name: 'demo', capabilities: ['*'], goal: 'Help customers' },
  });
  return String(agent.agent_id);
}

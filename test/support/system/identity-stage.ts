import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Sidecar, startSidecar } from '../../../proxy/main.ts';
import { readConfig } from '../../../proxy/settings/config.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { sidecarSection } from '../../../shared/sync/sections.ts';
import { dressed, type LiveStage, startLiveStage } from '../disguises/live-stage.ts';
import { post } from '../disguises/request.ts';
import { type Answer, converse, type Way } from '../disguises/wire.ts';
import { until } from '../programs/processes.ts';

/** The API key of another tenant's owner. */
export const strangerKey = formatApiKey('anotherTenantsOwnerKey00000000');
export const proxyToken = 'a-token-of-the-second-sidecar';

/**
 * The sidecar of one agent, and a sidecar of another agent. The other sidecar's proxy requires a
 * token.
 */
export interface IdentityStage
  extends Pick<LiveStage, 'separate' | 'recorder' | 'way' | 'reasons'> {
  readonly other: Sidecar;
  readonly otherAgent: string;
  readonly firstSidecar: string;
  /** The data directory of the other sidecar. */
  readonly dataDir: string;
  /** Returns settings of the other sidecar, with a separate data directory. */
  configOf(folder: string): ReturnType<typeof readConfig>;
  /**
   * Sends an allowed call with additional headers and arguments, through the given sidecar or, by
   * default, the first one.
   */
  send(headers: readonly string[], args?: object, through?: Sidecar): Promise<Answer | undefined>;
  /** Issues a passport for the first agent; `more` overrides its terms. */
  issue(more?: object, key?: string): Promise<string>;
  /** Returns the lease that the bus has for a sidecar. */
  leaseOf(sidecarId: string): Promise<string>;
  close(): Promise<void>;
}

export async function startIdentityStage(): Promise<IdentityStage> {
  const stage = await startLiveStage([`${strangerKey}=other:owner:gateway:stranger`]);
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'identity-'));
  const { separate } = stage;
  const agent = { name: 'other', capabilities: ['**'] };
  const registered = await separate.api('POST', '/v1/agents/register', agent);
  const otherAgent = String(registered.body.agent_id);
  const subject = { agent_id: otherAgent, user_id: 'user_2' };
  const made = await separate.api('POST', '/v1/sidecars/tokens', subject);
  const configOf = (folder: string) =>
    readConfig({
      env: {
        SALLYPORT_PROXY_PORT: '0',
        SALLYPORT_PROXY_ADMIN_PORT: '0',
        SALLYPORT_PROXY_TOKEN: proxyToken,
        SALLYPORT_DATA_DIR: folder,
        SALLYPORT_CONTROL_PLANE_URL: separate.origin,
        SALLYPORT_ENROLMENT_TOKEN: String(made.body.token),
        SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
        REDIS_URL: stage.redisUrl,
      },
      readFile: () => '',
    });
  const other = await startSidecar(configOf(dataDir), { log: silentLog });
  const { body } = await separate.api('GET', '/v1/sidecars');
  const sidecars = body.sidecars as { id: string; agent_id: string }[];
  const first = sidecars.find(({ agent_id }) => agent_id === separate.agentId);
  const { recorder, way, reasons } = stage;
  const identity: IdentityStage = {
    separate,
    recorder,
    way,
    reasons,
    other,
    otherAgent,
    firstSidecar: first?.id ?? '',
    dataDir,
    configOf,
    send: (headers, args = {}, through) => send(stage, { headers, args, through }),
    issue: (more = {}, key = separate.ownerKey) => issue(stage, more, key),
    leaseOf: (sidecarId) => leaseOf(stage.redisUrl, sidecarId),
    async close() {
      await other.close();
      await stage.close();
      fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
  const token = [`Proxy-Authorization: Bearer ${proxyToken}`];
  await until('policies are in force at the other sidecar', async () => {
    const answer = await identity.send(token, {}, other);
    return answer?.status === 200;
  });
  return identity;
}

interface Sent {
  readonly headers: readonly string[];
  readonly args: object;
  readonly through: Sidecar | undefined;
}

async function send(stage: LiveStage, { headers, args, through }: Sent) {
  const plain = stage.way('plain');
  const way: Way =
    through === undefined ? plain : { ...plain, proxyPort: Number(new URL(through.proxyUrl).port) };
  const bytes = post('/v1/payments/pay_1/refund', { amount: 50, ...args }, headers);
  return (await converse(way, dressed(bytes, way))).answers[0];
}

async function issue({ separate }: LiveStage, more: object, key: string): Promise<string> {
  const body = {
    agent_id: separate.agentId,
    user_id: 'user_1',
    tenant_id: 'default',
    audience: 'gateway://agents',
    goal: 'refund',
    policy_id: 'disguises',
    risk_tier: 'medium',
    allowed_tools: ['payments.refund'],
    allowed_resources: ['**'],
    ttl_seconds: 60,
    ...more,
  };
  const response = await fetch(`${separate.origin}/api/v1/passports/issue`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as { passport?: string };
  if (answer.passport === undefined) throw new Error(JSON.stringify(answer));
  return answer.passport;
}

async function leaseOf(redisUrl: string, sidecarId: string): Promise<string> {
  const bus = await openBus({ redisUrl, log: silentLog, clock: systemClock });
  try {
    const token = (await bus.read('default', sidecarSection(sidecarId))) ?? '';
    const text = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();
    const lease = /"lease":"([^"]+)"/.exec(text)?.[1];
    if (lease === undefined) throw new Error(`no lease in ${text}`);
    return lease;
  } finally {
    await bus.close();
  }
}

import { anyUser } from '../../shared/passport/claims.ts';
import { agentChain } from '../events.ts';
import type { Services } from '../services.ts';
import type { Sidecar } from '../store/generated/client.ts';
import { isUserOfPassport } from './passport-user.ts';
import type { UploadedRecord } from './uploaded-segment.ts';

/** What a sidecar can have seen. Everything else is for the control plane alone to say. */
const seenTypes =
  /^(decision|execution\.result|passthrough|tool\.(drifted|renamed)|stream\.[a-z_]+|sidecar\.(started|stopped|drifted|stale|fault))$/;

type Event = UploadedRecord['event'];

/**
 * Says which record speaks for somebody else than the sidecar's own agent and user, if any. Its
 * user may also be the one of a passport that its agent presented.
 */
export async function strangerAmong(
  services: Pick<Services, 'db'>,
  sidecar: Sidecar,
  records: readonly UploadedRecord[],
): Promise<string | undefined> {
  const checked = new Map<string, boolean>();
  for (const [index, { event }] of records.entries()) {
    const problem =
      foreignField(sidecar, event) ?? (await foreignUser(services, sidecar, event, checked));
    if (problem !== undefined) return `records[${index}].event.${problem}`;
  }
  return undefined;
}

function foreignField({ id, agentId }: Sidecar, event: Event): string | undefined {
  const ownChains = [agentChain(agentId), `sidecar:${id}`];
  if (!seenTypes.test(event.type)) return 'type: is not for a sidecar to report';
  if (event.source !== `sidecar:${id}`) return 'source: is not this sidecar';
  if (event.agent_id !== agentId) return 'agent_id: is not the agent of this sidecar';
  if (!ownChains.includes(event.chain_id)) return 'chain_id: is not a chain of this sidecar';
  return undefined;
}

async function foreignUser(
  services: Pick<Services, 'db'>,
  sidecar: Sidecar,
  { user_id: userId, data }: Event,
  checked: Map<string, boolean>,
): Promise<string | undefined> {
  if (userId === undefined || userId === sidecar.userId) return undefined;
  const problem = 'user_id: is not the user of this sidecar, nor of a passport of its agent';
  const jti = data.passport_jti;
  if (typeof jti !== 'string' || userId === anyUser) return problem;
  const key = JSON.stringify([jti, userId]);
  const isUser = checked.get(key) ?? (await isUserOfPassport(services, sidecar, { jti, userId }));
  checked.set(key, isUser);
  return isUser ? undefined : problem;
}

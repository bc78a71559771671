import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import { agentChain } from '../events.ts';
import { userPresence } from '../passports/user-presence.ts';
import type { Services } from '../services.ts';
import type { Sidecar } from '../store/generated/client.ts';

/** What a sidecar can have seen. Everything else is for the control plane alone to say. */
const seenTypes =
  /^(decision|execution\.result|passthrough|tool\.(drifted|renamed)|stream\.[a-z_]+|sidecar\.(started|stopped|drifted|stale|fault|throttled))$/;

/**
 * Tells which events speak for somebody else than the sidecar's own agent and user. Its user may
 * also be the one of a passport that its agent presented.
 */
export class Speakers {
  readonly #services: Pick<Services, 'db' | 'guard'>;
  readonly #sidecar: Sidecar;
  readonly #checked = new Map<string, boolean>();

  constructor(services: Pick<Services, 'db' | 'guard'>, sidecar: Sidecar) {
    this.#services = services;
    this.#sidecar = sidecar;
  }

  /** Says what is wrong with an event, if anything. */
  async problemOf(event: EvidenceEvent): Promise<string | undefined> {
    return foreignField(this.#sidecar, event) ?? (await this.#foreignUser(event));
  }

  async #foreignUser({ user_id: userId, data }: EvidenceEvent): Promise<string | undefined> {
    if (userId === undefined || userId === this.#sidecar.userId) return undefined;
    const problem = 'user_id: is not the user of this sidecar, nor of a passport of its agent';
    const jti = data.passport_jti;
    if (typeof jti !== 'string' || userId === anyUser) return problem;
    const { tenantId, agentId } = this.#sidecar;
    const key = JSON.stringify([jti, userId]);
    const isUser =
      this.#checked.get(key) ??
      (await userPresence(this.#services, { tenantId, agentId, jti, userId })) !== undefined;
    this.#checked.set(key, isUser);
    return isUser ? undefined : problem;
  }
}

function foreignField({ id, agentId }: Sidecar, event: EvidenceEvent): string | undefined {
  const ownChains = [agentChain(agentId), `sidecar:${id}`];
  if (!seenTypes.test(event.type)) return 'type: is not for a sidecar to report';
  if (event.source !== `sidecar:${id}`) return 'source: is not this sidecar';
  if (event.agent_id !== agentId) return 'agent_id: is not the agent of this sidecar';
  if (!ownChains.includes(event.chain_id)) return 'chain_id: is not a chain of this sidecar';
  return undefined;
}

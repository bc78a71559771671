import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

/** Event types that a sidecar may send; the control plane alone seals all others. */
const seenTypes =
  /^(decision|execution\.result|passthrough|tool\.(drifted|renamed)|stream\.[a-z_]+|sidecar\.(started|stopped|drifted|stale|fault|throttled))$/;

/**
 * Finds events whose agent, user or environment differs from the enrolment. A different user is
 * accepted only if the event names a passport that the control plane issued to the agent for this
 * user.
 */
export class Speakers {
  readonly #services: Pick<Services, 'db' | 'guard'>;
  readonly #sidecar: Verified<Sidecar>;
  readonly #checked = new Map<string, boolean>();

  constructor(services: Pick<Services, 'db' | 'guard'>, sidecar: Verified<Sidecar>) {
    this.#services = services;
    this.#sidecar = sidecar;
  }

  /** The problem of an event, or undefined. */
  async problemOf(event: EvidenceEvent): Promise<string | undefined> {
    return foreignField(this.#sidecar, event) ?? (await this.#foreignUser(event));
  }

  async #foreignUser({ user_id: userId, data }: EvidenceEvent): Promise<string | undefined> {
    const claims = [
      ['user_id', userId],
      ['data.acted_for', data.acted_for],
    ] as const;
    for (const [field, user] of claims) {
      if (user === undefined || user === this.#sidecar.userId) continue;
      if (await this.#isPassportUser(user, data.passport_jti)) continue;
      return `${field}: is not the user of this sidecar, nor of a passport of its agent`;
    }
    return undefined;
  }

  async #isPassportUser(user: unknown, jti: unknown): Promise<boolean> {
    if (typeof user !== 'string' || typeof jti !== 'string' || user === anyUser) return false;
    const key = JSON.stringify([jti, user]);
    const isUser = this.#checked.get(key) ?? (await this.#wasIssuedFor(user, jti));
    this.#checked.set(key, isUser);
    return isUser;
  }

  /** A grant's passport names the user of the approved action and is valid at this sidecar only. */
  async #wasIssuedFor(user: string, jti: string): Promise<boolean> {
    const { tenantId, agentId, id } = this.#sidecar;
    const isTheirs = {
      agentId,
      userId: user,
      OR: [{ kind: 'agent' }, { kind: 'grant', sidecarId: id }],
    };
    const found = await signedRows(this.#services, 'passport').findValid({
      where: { tenantId, jti: revocationId(jti), ...isTheirs },
    });
    return found.length > 0;
  }
}

function foreignField(
  { id, agentId, environment }: Verified<Sidecar>,
  event: EvidenceEvent,
): string | undefined {
  const ownChains = [agentChain(agentId), `sidecar:${id}`];
  if (!seenTypes.test(event.type)) return 'type: is not for a sidecar to report';
  if (event.source !== `sidecar:${id}`) return 'source: is not this sidecar';
  if (event.agent_id !== agentId) return 'agent_id: is not the agent of this sidecar';
  if (!ownChains.includes(event.chain_id)) return 'chain_id: is not a chain of this sidecar';
  const { environment: claimed = environment } = event.data;
  if (claimed !== environment) return 'data.environment: is not that of this sidecar';
  return undefined;
}

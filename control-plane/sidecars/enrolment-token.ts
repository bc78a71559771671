import { hash, randomBytes } from 'node:crypto';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { SignedClient } from '../platform/signed-store/tables.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { assertMayGrant } from './assert-may-grant.ts';

const lifeMs = 10 * 60_000;

interface CreatedToken {
  readonly token: string;
  readonly expiresAt: Date;
  /** Capabilities of the agent when the token is created. */
  readonly capabilities: readonly string[];
}

interface TokenRequest {
  readonly agentId: string;
  readonly userId: string;
  readonly environment: Environment;
  readonly maxUses: number;
}

/** Stored form of a token. A token has 256 random bits, so a fast hash is sufficient. */
export function tokenHash(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Creates a token that enrols sidecars of one agent and user; only its hash is stored. */
export async function createEnrolmentToken(
  services: Services,
  caller: Caller,
  { agentId, userId, environment, maxUses }: TokenRequest,
): Promise<CreatedToken> {
  const { tenantId, principal } = caller;
  assertOwnAgent(caller, agentId);
  const token = `set_${randomBytes(32).toString('base64url')}`;
  const expiresAt = new Date(services.clock.now() + lifeMs);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    // Prevents a concurrent widening of the agent's capabilities.
    await lockFor(tx, tenantId, 'agents');
    const { capabilities } = await assertAgent(services, tx, tenantId, agentId);
    await assertMayGrant(services, tx, caller, { agentId, userId, environment });
    await notes.rows('enrolment_token').create({
      hash: tokenHash(token),
      tenantId,
      agentId,
      userId,
      environment,
      usesLeft: maxUses,
      createdBy: principal,
      expiresAt,
    });
    await notes.event({
      type: 'sidecar.token_created',
      chainId: agentChain(agentId),
      agentId,
      userId,
      data: {
        by: principal,
        capabilities,
        environment,
        expires_at: expiresAt.toISOString(),
        max_uses: maxUses,
      },
    });
    return capabilities;
  });
  return { token, expiresAt, capabilities: result };
}

/** Returns the agent; throws if it does not exist in the tenant or is disabled. */
export async function assertAgent(
  { guard }: Pick<Services, 'guard'>,
  db: SignedClient,
  tenantId: string,
  agentId: string,
): Promise<Verified<Agent>> {
  const id = agentRowId(agentId);
  const agents = signedRows({ db, guard }, 'agent');
  const agent =
    id === undefined ? null : await agents.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (agent === null) throw new GatewayError('agent.not_found');
  if (agent.disabledAt !== null) throw new GatewayError('agent.disabled');
  return agent;
}

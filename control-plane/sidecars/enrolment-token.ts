import { hash, randomBytes } from 'node:crypto';
import type { Environment } from '../../shared/decision/action.ts';
import { GatewayError } from '../../shared/errors.ts';
import { agentRowId } from '../agents/agent-row-id.ts';
import { assertOwnAgent } from '../agents/own-agent.ts';
import { agentChain, commitChange } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services, Transaction } from '../services.ts';

const lifeMs = 10 * 60_000;

interface TokenRequest {
  readonly agentId: string;
  readonly userId: string;
  readonly environment: Environment;
  readonly maxUses: number;
}

/** Under which a token is stored: 256 random bits need no slow hash. */
export function tokenHash(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Makes a token with which sidecars of one agent and user enrol; only its hash is kept. */
export async function createEnrolmentToken(
  services: Services,
  caller: Caller,
  { agentId, userId, environment, maxUses }: TokenRequest,
): Promise<{ readonly token: string; readonly expiresAt: Date }> {
  const { tenantId, principal } = caller;
  assertOwnAgent(caller, agentId);
  await assertAgent(services, services.db, tenantId, agentId);
  const token = `set_${randomBytes(32).toString('base64url')}`;
  const expiresAt = new Date(services.clock.now() + lifeMs);
  await commitChange(services, tenantId, async (tx, notes) => {
    const created = await tx.enrolmentToken.create({
      data: {
        hash: tokenHash(token),
        tenantId,
        agentId,
        userId,
        environment,
        usesLeft: maxUses,
        createdBy: principal,
        expiresAt,
      },
    });
    await notes.signed('enrolment_token', created);
    await notes.event({
      type: 'sidecar.token_created',
      chainId: agentChain(agentId),
      agentId,
      userId,
      data: { by: principal, environment, expires_at: expiresAt.toISOString(), max_uses: maxUses },
    });
  });
  return { token, expiresAt };
}

/** Throws unless the tenant has this agent, and has not disabled it. */
export async function assertAgent(
  { guard }: Pick<Services, 'guard'>,
  tx: Pick<Transaction, 'agent'>,
  tenantId: string,
  agentId: string,
): Promise<void> {
  const id = agentRowId(agentId);
  const agent =
    id === undefined
      ? null
      : await tx.agent.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (agent === null) throw new GatewayError('agent.not_found');
  guard.assert('agent', agent);
  if (agent.disabledAt !== null) throw new GatewayError('agent.disabled');
}

import type { RiskTier } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { assertMayWiden } from './assert-may-widen.ts';
import { sectionsOfSidecars } from './sections-of-sidecars.ts';

interface AgentRegistration {
  readonly name: string;
  readonly kind: string;
  readonly capabilities: readonly string[];
  readonly goal?: string | undefined;
  readonly blastRadius?: RiskTier | undefined;
}

/**
 * Registers an agent, unique in its tenant by name and kind. A repeat replaces its capabilities,
 * and goal and blast radius if given; a disabled agent stays disabled.
 */
export async function registerAgent(
  services: Services,
  caller: Caller,
  registration: AgentRegistration,
): Promise<Agent> {
  const { tenantId, principal } = caller;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'agents');
    const { name, kind } = registration;
    const known = await tx.agent.findUnique({
      where: { tenantId_name_kind: { tenantId, name, kind } },
    });
    assertOwnAgent(caller, known === null ? undefined : String(known.id));
    if (known === null) await assertRoomForOne(tx, notes, tenantId);
    else notes.assertSigned('agent', known);
    const { capabilities } = registration;
    await assertMayWiden(services, tx, caller, { name, known: known ?? undefined, capabilities });
    const now = new Date(services.clock.now());
    const data = { ...fieldsOf(registration), updatedAt: now };
    const written =
      known === null
        ? await tx.agent.create({ data: { tenantId, name, kind, createdAt: now, ...data } })
        : await tx.agent.update({ where: { tenantId_id: { tenantId, id: known.id } }, data });
    // For an existing row, signs the verified values plus the change and nothing that was written
    // in between.
    const agent = await notes.signed('agent', known === null ? written : { ...known, ...data });
    const id = String(agent.id);
    notes.sections('agents', ...(await sectionsOfSidecars(tx, agent)));
    await notes.event({
      type: known === null ? 'agent.registered' : 'agent.updated',
      chainId: agentChain(id),
      agentId: id,
      data: {
        blast_radius: agent.blastRadius,
        by: principal,
        capabilities: agent.capabilities,
        goal: agent.goal ?? undefined,
        kind,
        name,
      },
    });
    return agent;
  });
  return result;
}

async function assertRoomForOne(
  tx: Transaction,
  notes: ChangeNotes,
  tenantId: string,
): Promise<void> {
  const present = await tx.agent.count({ where: { tenantId } });
  await assertWithinPlan(tx, tenantId, { feature: 'agents', present, notes });
}

function fieldsOf({ capabilities, goal, blastRadius }: AgentRegistration) {
  return {
    capabilities: [...new Set(capabilities)],
    ...(goal === undefined ? {} : { goal }),
    ...(blastRadius === undefined ? {} : { blastRadius }),
  };
}

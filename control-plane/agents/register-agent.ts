import type { RiskTier } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
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
 * Registers an agent. If an agent of this name and kind exists, replaces its capabilities and, if
 * given, its goal and blast radius. A disabled agent stays disabled.
 */
export async function registerAgent(
  services: Services,
  caller: Caller,
  registration: AgentRegistration,
): Promise<Verified<Agent>> {
  const { tenantId, principal } = caller;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'agents');
    const { name, kind } = registration;
    const agents = notes.rows('agent');
    const found = await agents.findUniqueUnverified({
      where: { tenantId_name_kind: { tenantId, name, kind } },
    });
    assertOwnAgent(caller, found === null ? undefined : String(claimsOf(found).id));
    if (found === null) await assertRoomForOne(notes, tenantId);
    const known = found === null ? undefined : agents.verify(found);
    const { capabilities } = registration;
    await assertMayWiden(services, tx, caller, { name, known, capabilities });
    const now = new Date(services.clock.now());
    const data = { ...fieldsOf(registration), updatedAt: now };
    const agent =
      known === undefined
        ? await agents.create({ tenantId, name, kind, createdAt: now, ...data })
        : await agents.update(known, data);
    const id = String(agent.id);
    notes.sections('agents', ...(await sectionsOfSidecars(notes, agent)));
    await notes.event({
      type: known === undefined ? 'agent.registered' : 'agent.updated',
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

async function assertRoomForOne(notes: ChangeNotes, tenantId: string): Promise<void> {
  const present = await notes.rows('agent').count({ tenantId });
  await assertWithinPlan(notes, tenantId, { feature: 'agents', present });
}

function fieldsOf({ capabilities, goal, blastRadius }: AgentRegistration) {
  return {
    capabilities: [...new Set(capabilities)],
    ...(goal === undefined ? {} : { goal }),
    ...(blastRadius === undefined ? {} : { blastRadius }),
  };
}

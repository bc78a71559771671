import { compileGlob } from '../../shared/glob.ts';
import type { Transaction } from '../services.ts';

/** True when some tool id fits both globs; two that each hold a `*` are taken to meet. */
function toolsMeet(one: string, other: string): boolean {
  if (one.includes('*') && other.includes('*')) return true;
  return compileGlob(one, 'tool')(other) || compileGlob(other, 'tool')(one);
}

/** True when an agent with these capabilities may call a tool that one of the globs names. */
export function reaches(capabilities: readonly string[], globs: readonly string[]): boolean {
  return capabilities.some((capability) => globs.some((glob) => toolsMeet(capability, glob)));
}

/** The live sidecars whose agents may call tools that these globs name. */
export async function affectedSidecars(
  tx: Pick<Transaction, 'sidecar' | 'agent'>,
  tenantId: string,
  globs: readonly string[],
): Promise<readonly string[]> {
  const sidecars = await tx.sidecar.findMany({
    where: { tenantId, revokedAt: null },
    select: { id: true, agentId: true },
  });
  const agentIds = [...new Set(sidecars.map(({ agentId }) => Number(agentId)))];
  const agents = await tx.agent.findMany({
    where: { tenantId, id: { in: agentIds.filter(Number.isSafeInteger) } },
    select: { id: true, capabilities: true },
  });
  const reached = new Set(
    agents.filter(({ capabilities }) => reaches(capabilities, globs)).map(({ id }) => String(id)),
  );
  return sidecars.filter(({ agentId }) => reached.has(agentId)).map(({ id }) => id);
}

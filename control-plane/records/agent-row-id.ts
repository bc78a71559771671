/**
 * Returns the row id that an agent id contains, or undefined if no registered agent can have this
 * id.
 */
export function agentRowId(agentId: string): number | undefined {
  if (!/^[1-9]\d{0,9}$/.test(agentId)) return undefined;
  const id = Number(agentId);
  return id <= 2_147_483_647 ? id : undefined;
}

/** Roles that decide approvals, from the least. */
const deciderRoles: readonly string[] = ['approver', 'admin', 'owner'];

const rolesBelow = ['agent', 'auditor', 'developer', 'gateway'];

/** The role that a rule's `min_role` asks for: one that no key can have asks for the highest. */
export function requiredRole(minRole: string): string {
  if (rolesBelow.includes(minRole)) return 'approver';
  return deciderRoles.includes(minRole) ? minRole : 'owner';
}

/** True when a role satisfies `min_role`; a role that decides nothing satisfies none. */
export function roleSuffices(role: string, minRole: string): boolean {
  const rank = deciderRoles.indexOf(role);
  return rank >= deciderRoles.indexOf(requiredRole(minRole));
}

/** The one of two `min_role` that fewer people satisfy. */
export function stricterRole(one: string, other: string): string {
  const [a, b] = [requiredRole(one), requiredRole(other)];
  return deciderRoles.indexOf(a) >= deciderRoles.indexOf(b) ? a : b;
}

/** The lowest of the roles of those who decided; undefined for none. */
export function lowestRole(roles: readonly string[]): string | undefined {
  return roles.toSorted((a, b) => deciderRoles.indexOf(a) - deciderRoles.indexOf(b))[0];
}

/** The next higher role; the highest stays. */
export function roleAbove(minRole: string): string {
  return deciderRoles[deciderRoles.indexOf(requiredRole(minRole)) + 1] ?? 'owner';
}

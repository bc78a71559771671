/** Roles that can decide approvals, lowest first. */
const deciderRoles: readonly string[] = ['approver', 'admin', 'owner'];

const rolesBelow = ['agent', 'auditor', 'developer', 'gateway'];

/**
 * The role that a rule's `min_role` requires. If no key can have that role, the highest role is
 * required.
 */
export function requiredRole(minRole: string): string {
  if (rolesBelow.includes(minRole)) return 'approver';
  return deciderRoles.includes(minRole) ? minRole : 'owner';
}

/** True if a role satisfies `min_role`. A role that cannot decide satisfies none. */
export function roleSuffices(role: string, minRole: string): boolean {
  const rank = deciderRoles.indexOf(role);
  return rank >= deciderRoles.indexOf(requiredRole(minRole));
}

/** The stricter of two `min_role` values. */
export function stricterRole(one: string, other: string): string {
  const [a, b] = [requiredRole(one), requiredRole(other)];
  return deciderRoles.indexOf(a) >= deciderRoles.indexOf(b) ? a : b;
}

/** The lowest of the deciders' roles; undefined if there are none. */
export function lowestRole(roles: readonly string[]): string | undefined {
  return roles.toSorted((a, b) => deciderRoles.indexOf(a) - deciderRoles.indexOf(b))[0];
}

/** The next higher role; the highest role returns itself. */
export function roleAbove(minRole: string): string {
  return deciderRoles[deciderRoles.indexOf(requiredRole(minRole)) + 1] ?? 'owner';
}

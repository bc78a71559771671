import { type Permission, permissions } from '../../../shared/contract/base/operation.ts';
import { type Role, roles } from '../../../shared/contract/keys.ts';

// Verifying a passport counts as a read, because it changes nothing and shows only what the
// passport's holder can read.
const reads = ['read', 'evidence.read', 'passport.verify'] as const satisfies Permission[];

/**
 * Permissions of each role (design 12). Owners and admins differ in key ownership: see create-key.
 */
const permissionsByRole: Readonly<Record<Role, ReadonlySet<Permission>>> = {
  owner: new Set(permissions),
  admin: new Set(permissions),
  developer: new Set([
    'policy.write',
    'tool.write',
    'agent.write',
    'passport.issue',
    'action.preflight',
    ...reads,
  ]),
  approver: new Set(['approval.decide', ...reads]),
  auditor: new Set(['evidence.export', ...reads]),
  agent: new Set(['action.preflight', 'passport.verify']),
  gateway: new Set([
    'action.preflight',
    'action.execute',
    'evidence.write',
    'integration.itsm',
    'acl.sync',
    'delivery.drain',
  ]),
};

// Permissions of a key that is bound to an agent. Such a key may also issue passports for that
// agent; use cases check the agent.
const boundAgent: ReadonlySet<Permission> = new Set([
  ...permissionsByRole.agent,
  'passport.issue',
] as const);

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

/**
 * Returns the permissions of a role; an unknown role has none. `agentBound`: the key is bound to
 * one agent.
 */
export function permissionsOf(role: string, agentBound: boolean): ReadonlySet<Permission> {
  if (!isRole(role)) return new Set();
  return role === 'agent' && agentBound ? boundAgent : permissionsByRole[role];
}

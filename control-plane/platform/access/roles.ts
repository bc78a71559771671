import { type Permission, permissions } from '../../../shared/contract/base/operation.ts';
import { type Role, roles } from '../../../shared/contract/keys.ts';

// Verifying a passport changes nothing and shows nothing that its holder cannot read: it is a read.
const reads = ['read', 'evidence.read', 'passport.verify'] as const satisfies Permission[];

/** What each role may do (design 12). Owners differ from admins in key ownership: see create-key. */
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

// A key that stands for one agent may also get that agent's passports; which agent, use cases check.
const boundAgent: ReadonlySet<Permission> = new Set([
  ...permissionsByRole.agent,
  'passport.issue',
] as const);

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

/** The permissions of a role; of an unknown one: none. `agentBound`: the key belongs to one agent. */
export function permissionsOf(role: string, agentBound: boolean): ReadonlySet<Permission> {
  if (!isRole(role)) return new Set();
  return role === 'agent' && agentBound ? boundAgent : permissionsByRole[role];
}

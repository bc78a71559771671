import { expect, it } from 'vitest';
import { permissionsOf } from '../../../../control-plane/platform/access/roles.ts';
import { permissions } from '../../../../shared/contract/base/operation.ts';

const reads = ['evidence.read', 'passport.verify', 'read'];

it.each([
  ['owner', [...permissions]],
  ['admin', [...permissions]],
  [
    'developer',
    ['policy.write', 'tool.write', 'agent.write', 'passport.issue', 'action.preflight', ...reads],
  ],
  ['approver', ['approval.decide', ...reads]],
  ['auditor', ['evidence.export', ...reads]],
  ['agent', ['action.preflight', 'passport.verify']],
  [
    'gateway',
    [
      'action.preflight',
      'action.execute',
      'evidence.write',
      'integration.itsm',
      'acl.sync',
      'delivery.drain',
    ],
  ],
  ['nobody', []],
  ['constructor', []],
  ['', []],
])('role %s has exactly its documented permissions', (role, expected) => {
  expect([...permissionsOf(role, false)].sort()).toEqual([...expected].sort());
});

it('a key of role agent can issue passports only if it is bound to an agent', () => {
  expect(permissionsOf('agent', true).has('passport.issue')).toBe(true);
  expect(permissionsOf('agent', false).has('passport.issue')).toBe(false);
});

it('binding a key to an agent adds permissions only for role agent', () => {
  for (const role of ['approver', 'auditor', 'gateway', 'nobody']) {
    expect(permissionsOf(role, true)).toEqual(permissionsOf(role, false));
  }
});

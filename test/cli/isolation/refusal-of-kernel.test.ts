import { expect, it } from 'vitest';
import { refusalOf } from '../../../cli/isolation/refusal-of-kernel.ts';

const notPermitted = 'unshare: unshare failed: Operation not permitted\n';

it.each([
  [
    'user.max_user_namespaces',
    '/proc/sys/user/max_user_namespaces',
    '0',
    'run.isolation_userns_disabled',
  ],
  [
    'kernel.unprivileged_userns_clone',
    '/proc/sys/kernel/unprivileged_userns_clone',
    '0',
    'run.isolation_userns_root_only',
  ],
  [
    'AppArmor',
    '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    '1',
    'run.isolation_apparmor',
  ],
  ['a seccomp filter', '/proc/self/status', 'Name:\tnode\nSeccomp:\t2', 'run.isolation_seccomp'],
])('names %s as the reason why namespaces are refused', (_, path, value, code) => {
  const error = refusalOf(notPermitted, (asked) => (asked === path ? value : undefined));
  expect(error.code).toBe(code);
  expect(error.message).toContain('Operation not permitted');
});

it('reports an old version of unshare as a missing program', () => {
  const error = refusalOf("unshare: unrecognized option '--map-current-user'", () => undefined);
  expect(error.code).toBe('run.isolation_tool_missing');
});

it('quotes the kernel if no setting explains the refusal', () => {
  const error = refusalOf(notPermitted, () => undefined);
  expect(error.message).toMatch(
    /^run\.isolation_forbidden: .*unshare failed: Operation not permitted\./,
  );
});

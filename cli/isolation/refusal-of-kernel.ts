import { printable } from '../support/terminal.ts';
import { IsolationError } from './isolation-error.ts';

/**
 * Finds the kernel setting that forbids creating namespaces, from the output of `unshare` and from
 * the current settings.
 */
export function refusalOf(
  errors: string,
  readSetting: (path: string) => string | undefined,
): IsolationError {
  const said = printable(errors.trim().split('\n')[0] ?? '');
  const detail = said === '' ? undefined : `${said}.`;
  const setting = (name: string) => readSetting(`/proc/sys/${name}`);
  if (/unrecognized option|invalid option/.test(errors)) {
    return new IsolationError('run.isolation_tool_missing', 'It is `unshare --map-current-user`.');
  }
  if (setting('user/max_user_namespaces') === '0') {
    return new IsolationError('run.isolation_userns_disabled', detail);
  }
  if (setting('kernel/unprivileged_userns_clone') === '0') {
    return new IsolationError('run.isolation_userns_root_only', detail);
  }
  if (setting('kernel/apparmor_restrict_unprivileged_userns') === '1') {
    return new IsolationError('run.isolation_apparmor', detail);
  }
  if (/^Seccomp:\s*2$/m.test(readSetting('/proc/self/status') ?? '')) {
    return new IsolationError('run.isolation_seccomp', detail);
  }
  return new IsolationError('run.isolation_forbidden', detail);
}

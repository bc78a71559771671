import { SettingsError } from '../../../shared/base/settings.ts';
import { type KeyScope, type Role, roles } from '../../../shared/contract/keys.ts';
import type { Config } from '../config/config.ts';
import { isRole } from './roles.ts';

/** A development key from the environment. */
interface DevKey {
  readonly key: string;
  readonly tenantId: string;
  readonly role: Role;
  readonly scope: KeyScope;
  readonly principal: string;
}

// Less strict than the form of generated keys and without a checksum, because people write
// development keys by hand.
const keyForm = /^apk_[0-9A-Za-z_-]{4,128}$/;
const tenantForm = /^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$/;
const principalForm = /^[\p{L}\p{N}][\p{L}\p{N} ._@+/-]{0,99}$/u;

/**
 * Parses `SALLYPORT_DEV_KEYS`: `key=tenant:role:scope[:principal]`, comma separated. Error messages
 * identify an entry by its number and never repeat a key. Throws in production if any keys are set.
 */
export function parseDevKeys({
  devKeys,
  production,
}: Pick<Config, 'devKeys' | 'production'>): readonly DevKey[] {
  const entries = devKeys
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  if (entries.length === 0) return [];
  if (production) {
    throw new SettingsError(
      'SALLYPORT_DEV_KEYS is for development: unset it when NODE_ENV is production, and create keys with POST /v1/keys.',
    );
  }
  const keys = entries.map(parseEntry);
  if (new Set(keys.map(({ key }) => key)).size < keys.length) {
    throw new SettingsError('SALLYPORT_DEV_KEYS contains the same key twice.');
  }
  return keys;
}

function parseEntry(entry: string, index: number): DevKey {
  const at = entry.indexOf('=');
  const key = entry.slice(0, Math.max(at, 0));
  const [tenantId = '', role = '', scope = '', principal = role, ...rest] = entry
    .slice(at + 1)
    .split(':');
  const wrong = (what: string) =>
    new SettingsError(
      `SALLYPORT_DEV_KEYS, entry ${index + 1}: ${what}. The form is key=tenant:role:scope[:principal].`,
    );
  if (!keyForm.test(key)) throw wrong('a key is apk_ and at least 4 letters, digits, _ or -');
  if (!tenantForm.test(tenantId)) throw wrong('the tenant is letters, digits, _ or -');
  if (!isRole(role)) throw wrong(`the role is one of ${roles.join(', ')}`);
  if (scope !== 'tenant' && scope !== 'gateway') throw wrong('the scope is tenant or gateway');
  if (!principalForm.test(principal) || rest.length > 0) throw wrong('the principal is not a name');
  return { key, tenantId, role, scope, principal };
}

import type { IncomingMessage } from 'node:http';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Platform } from '../platform.ts';
import type { Caller } from './caller.ts';
import { keyDirectory } from './key-directory.ts';
import { authenticateSidecar } from './sidecar-token.ts';

const bearerForm = /^bearer +([^\s,]+) *$/i;
const keyLengthMax = 200;

/**
 * Identifies the caller. Throws an error with status 401 if the operation's credential is missing
 * or invalid.
 */
export type Authenticate = (
  operation: AnyOperation,
  req: IncomingMessage,
  /** Called before an unknown key is looked up: charges the caller's address, and may throw. */
  chargeUnknown: (address: string) => Promise<void>,
) => Promise<Caller>;

export function createAuthenticate(services: Platform): Authenticate {
  const keys = keyDirectory(services);
  return async ({ auth }, req, chargeUnknown) => {
    const address = req.socket.remoteAddress ?? 'unknown';
    if (auth === 'none') return { ...anonymous, address };
    const token = bearerToken(req, auth === 'sidecar');
    if (auth === 'sidecar') return { ...(await authenticateSidecar(services, token)), address };
    const charge = () => chargeUnknown(address);
    if (token.length > keyLengthMax) await charge();
    const holder = token.length <= keyLengthMax ? await keys.find(token, charge) : undefined;
    if (holder === undefined) throw invalidKey(keys.expiredAtMs(token));
    return { ...holder, address };
  };
}

/**
 * Builds the error for an invalid key. The error states the key's expiry only to a caller that
 * holds the key.
 */
function invalidKey(expiredAtMs: number | undefined): GatewayError {
  if (expiredAtMs === undefined) return new GatewayError('auth.invalid_key');
  const expired_at = new Date(expiredAtMs).toISOString();
  return new GatewayError('auth.invalid_key', {
    message: `The API key expired at ${expired_at}: create another key, or ask an owner for one.`,
    details: { expired_at },
  });
}

const anonymous: Omit<Caller, 'address'> = {
  kind: 'anonymous',
  tenantId: '',
  principal: 'anonymous',
  role: 'none',
  scope: 'tenant',
  permissions: new Set(),
};

/** Returns the bearer token of a request. */
export function bearerToken(req: Pick<IncomingMessage, 'headers'>, forSidecar: boolean): string {
  const header = req.headers.authorization;
  if (header === undefined) {
    throw new GatewayError(forSidecar ? 'auth.sidecar_required' : 'auth.missing_key');
  }
  const token = bearerForm.exec(header)?.[1];
  if (token === undefined) {
    throw new GatewayError(forSidecar ? 'auth.sidecar_required' : 'auth.invalid_key', {
      message: 'The Authorization header must be Bearer and one token.',
    });
  }
  return token;
}

/**
 * Throws unless the caller may use the operation. Checks the gateway scope first, then the
 * operation's permission.
 */
export function authorise({ auth, permission }: AnyOperation, caller: Caller): void {
  if (auth === 'none' || auth === 'sidecar') return;
  if (auth === 'gateway' && caller.scope !== 'gateway') {
    throw new GatewayError('auth.gateway_scope_required', { details: { scope: 'gateway' } });
  }
  if (permission !== undefined && caller.permissions.has(permission)) return;
  throw new GatewayError('auth.insufficient_permission', {
    message: `The API key lacks the permission ${permission ?? 'this operation needs'}.`,
    details: permission === undefined ? {} : { scope: permission },
  });
}

import type { Authority } from '../../shared/base/host.ts';
import { internalHost } from '../base/internal-host-name.ts';
import type { Opening } from './carry-tunnel.ts';
import { type Intercepted, intercept } from './intercept.ts';
import type { IngressContext } from './options.ts';

export type OnIntercepted = (intercepted: Intercepted, authority: Authority) => void;

/** Whether connections to this destination are tunnelled unread. */
export function isTunnelled(
  { passthrough }: Pick<IngressContext, 'passthrough'>,
  { host, port }: Authority,
): boolean {
  return host !== internalHost && passthrough(host, port) === 'tunnel';
}

/** Intercepts a connection. Throws if the local authority must not issue a certificate for its host. */
export function interceptOpening(
  context: IngressContext,
  { socket, authority, confirm }: Opening,
  onIntercepted: OnIntercepted,
): void {
  const { host } = authority;
  const refusal = host === internalHost ? undefined : context.authority.refusal(host);
  if (refusal !== undefined) throw refusal;
  intercept({
    socket,
    confirm,
    authority,
    leaf: () => context.authority.leafFor(host),
    handshakeMs: context.limits.handshakeMs,
    onReady: (intercepted) => onIntercepted(intercepted, authority),
    onFailed: (error) => context.refused(error, host),
  });
}

import type { Log } from '../../shared/base/log.ts';
import type { Identity } from '../identity.ts';
import { knownRevocation } from '../replica/known-revocation.ts';
import type { Replica } from '../replica/replica.ts';
import { explainRevocation } from './explain-revocation.ts';

interface RevocationLog {
  readonly replica: Pick<Replica, 'revocationOf' | 'onChange'>;
  readonly identity: Pick<Identity, 'agentId' | 'sidecarId'>;
  readonly log: Log;
}

/** Logs once that the agent was disabled or the sidecar revoked, and once that this is over. */
export function logRevocation({ replica, identity, log }: RevocationLog): () => void {
  let logged: string | undefined;
  const look = () => {
    const cause = knownRevocation(replica, identity.agentId);
    if (cause === logged) return;
    if (cause === undefined) log.info({ was: logged }, 'calls of the agent are decided again');
    else log.warn({ reason_code: cause }, explainRevocation(cause, identity));
    logged = cause;
  };
  look();
  return replica.onChange('revocations', look);
}

import type { Log } from '../../shared/base/log.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Identity } from '../base/identity.ts';
import type { Replica, Revocation } from '../replica/replica.ts';

/**
 * The reason why every call by this agent is refused; undefined if there is none, or if the replica
 * has no complete snapshot yet.
 */
export function knownRevocation(
  replica: Pick<Replica, 'revocationOf'>,
  agentId: string,
): Revocation | undefined {
  try {
    return replica.revocationOf(agentId);
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'sync.no_snapshot') return undefined;
    throw error;
  }
}

/** Explains to the operator what was revoked, and how calls become possible again. */
export function explainRevocation(
  cause: Revocation,
  { agentId, sidecarId }: Pick<Identity, 'agentId' | 'sidecarId'>,
): string {
  switch (cause) {
    case 'agent.disabled':
      return `agent.disabled: agent ${agentId} is disabled, so every call is denied; enable it with PATCH /v1/agents/${agentId} and {"disabled": false}.`;
    case 'sidecar.revoked':
      return `sidecar.revoked: sidecar ${sidecarId} was revoked for good, so every call is denied. The sidecar of a pod enrols again by itself, unless an operator revoked it: then delete the pod. To enrol another one with a token, stop the program, move enrolment.json out of the sidecar’s data directory, and start it again with one from \`sallyport sidecars token\` (\`npm start\` needs none). Keep everything else in that directory: in the embedded mode it holds the database and the keys.`;
  }
}

interface RevocationLog {
  readonly replica: Pick<Replica, 'revocationOf' | 'onChange'>;
  readonly identity: Pick<Identity, 'agentId' | 'sidecarId'>;
  readonly log: Log;
}

/** Logs once when the agent is disabled or the sidecar revoked, and once when this is over. */
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

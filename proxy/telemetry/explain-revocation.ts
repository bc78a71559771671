import type { Identity } from '../identity.ts';
import type { Revocation } from '../replica/replica.ts';

/** For the operator: what was revoked, and how calls become possible again. */
export function explainRevocation(
  cause: Revocation,
  { agentId, sidecarId }: Pick<Identity, 'agentId' | 'sidecarId'>,
): string {
  switch (cause) {
    case 'agent.disabled':
      return `agent.disabled: agent ${agentId} is disabled, so every call is denied; enable it with PATCH /v1/agents/${agentId} and {"disabled": false}.`;
    case 'sidecar.revoked':
      return `sidecar.revoked: sidecar ${sidecarId} was revoked for good, so every call is denied. To enrol another one, stop the program, move enrolment.json out of the sidecar’s data directory, and start it again with a token from \`sallyport sidecars token\` (\`npm start\` needs none). Keep everything else in that directory: in the embedded mode it holds the database and the keys.`;
  }
}

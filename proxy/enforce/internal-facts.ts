import type { Identity } from '../identity.ts';
import type { OpenedApprovals } from '../replica/opened-approvals.ts';
import type { Replica } from '../replica/replica.ts';
import type { Authority } from '../tls/authority.ts';
import type { UsageCounter } from '../usage/usage-counter.ts';
import { agentManifest } from './agent-manifest.ts';
import type { InternalHostDeps } from './internal-host.ts';

/** What the internal host tells the agent, read from the replica each time it is asked. */
export function internalFacts({
  replica,
  openedApprovals,
  identity,
  authority,
  usage,
}: {
  readonly replica: Replica;
  readonly openedApprovals: OpenedApprovals;
  readonly identity: Identity;
  readonly authority: Authority;
  readonly usage: UsageCounter;
}): InternalHostDeps {
  return {
    approval(id) {
      const approval = openedApprovals.standing(id);
      if (approval === undefined) return undefined;
      const { status, expiresAtMs, comment } = approval;
      return { status, expiresAt: new Date(expiresAtMs).toISOString(), comment };
    },
    manifest: () => agentManifest({ replica, identity, usage }),
    caCertificate: () => authority.certPem,
  };
}

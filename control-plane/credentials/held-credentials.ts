import { setImmediate } from 'node:timers/promises';
import type { HeldCredential } from '../../shared/binding/binding.ts';
import { matchesAnyGlob } from '../../shared/glob/glob.ts';
import { globsCertainlyIntersect } from '../../shared/glob/glob-intersection.ts';
import type { Services } from '../core/services.ts';
import { queryIn, queryOn } from '../integrity/active-versions.ts';
import { type CredentialDeps, currentCredentials } from '../integrity/current-credentials.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { openCredential } from './stored-credential.ts';

type Deps = Pick<Services, 'db' | 'pool' | 'vault' | 'guard'>;

const stepsPerCredential = 1_000_000;

/**
 * Returns the credentials, with their secrets, for the tools that an agent may call, in the order
 * in which a sidecar tries them. Send them only to the agent's sidecar, encrypted. A credential is
 * withheld if it cannot be decided whether its tools and the agent's capabilities intersect.
 */
export async function credentialsOfAgent(
  deps: Deps,
  tenantId: string,
  agentId: string,
): Promise<readonly HeldCredential[]> {
  const id = agentRowId(agentId);
  if (id === undefined) return [];
  const agents = signedRows(deps, 'agent');
  const agent = await agents.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (agent === null || agent.disabledAt !== null) return [];
  const reached: HeldCredential[] = [];
  for (const credential of await openAll(deps, tenantId)) {
    const budget = { steps: stepsPerCredential };
    if (globsCertainlyIntersect(agent.capabilities, credential.bind.tools, 'tool', budget)) {
      reached.push(credential);
    }
    // Yields here, because comparing long lists of long globs would block other requests.
    if (budget.steps < stepsPerCredential / 2) await setImmediate();
  }
  return reached;
}

/**
 * Returns the credential for one call: the first match by name, as in a sidecar. Returns undefined
 * if none matches.
 */
export async function credentialForCall(
  deps: Deps,
  tenantId: string,
  { tool, host }: { readonly tool: string; readonly host: string },
): Promise<HeldCredential | undefined> {
  const held = await openAll(deps, tenantId);
  return held.find(
    ({ bind }) => bind.hosts.includes(host) && matchesAnyGlob(bind.tools, tool, 'tool'),
  );
}

/** Returns the name and the decrypted tool globs of every credential. */
export async function boundTools(
  { vault, guard }: Pick<Services, 'vault' | 'guard'>,
  tx: Transaction,
  tenantId: string,
): Promise<readonly { readonly name: string; readonly tools: readonly string[] }[]> {
  const deps: CredentialDeps = { db: tx, query: queryIn(tx), vault, guard };
  const rows = await currentCredentials(deps, tenantId);
  return rows.map((row) => ({ name: row.name, tools: openCredential(vault, row).bind.tools }));
}

/** Decrypts all credentials before one is chosen, because the unencrypted columns may be forged. */
async function openAll(deps: Deps, tenantId: string): Promise<readonly HeldCredential[]> {
  const rows = await currentCredentials({ ...deps, query: queryOn(deps.pool) }, tenantId);
  return rows.map((row) => openCredential(deps.vault, row));
}

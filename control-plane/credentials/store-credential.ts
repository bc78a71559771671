import type { z } from 'zod';
import { newId } from '../../shared/base/ids.ts';
import { boundHost } from '../../shared/binding/match.ts';
import type {
  CredentialRecord,
  storeCredential as storeOperation,
} from '../../shared/contract/credentials.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { queryIn } from '../integrity/active-versions.ts';
import {
  credentialStandings,
  outdatedAs,
  reportOutdated,
} from '../integrity/current-credentials.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Credential } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { affectedSidecars } from './affected-sidecars.ts';
import { injectionProblem } from './injection.ts';
import { removalOf } from './remove-credential.ts';
import { credentialRecordOf, sealCredential } from './stored-credential.ts';

type Wanted = z.output<NonNullable<(typeof storeOperation)['body']>>;

/**
 * Stores a credential, or a new version of the credential with that name. The secret is never shown
 * again.
 */
export async function storeCredential(
  services: Services,
  { tenantId, principal }: Caller,
  wanted: Wanted,
): Promise<CredentialRecord> {
  const { vault, clock } = services;
  const { name, inject } = wanted;
  const bind = readBind(wanted);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    // The lock admits one writer at a time: the ciphertext is bound to the version that is read
    // here.
    await lockFor(tx, tenantId, `credential ${name}`);
    const where = { tenantId_name: { tenantId, name } };
    const before = await usableBefore(services, tx, { tenantId, principal, name, notes });
    const id = before?.id ?? newId('cred', clock.now());
    const version = (before?.version ?? 0) + 1;
    const sealed = sealCredential(
      vault,
      { tenantId, id, version },
      { secret: wanted.secret, inject, bind },
    );
    const now = new Date(clock.now());
    const written = { version, inject: { ...inject }, ...bind, sealed, updatedAt: now };
    const row = await tx.credential.upsert({
      where,
      create: { id, tenantId, name, createdBy: principal, createdAt: now, ...written },
      update: written,
    });
    await notes.event({
      type: 'credential.stored',
      chainId: `credentials:${name}`,
      data: { by: principal, credential_id: id, name, version, inject: { in: inject.in }, bind },
    });
    const globs = [...bind.tools, ...(before?.tools ?? [])];
    const sidecars = await affectedSidecars(tx, tenantId, globs);
    notes.sections('tenant', ...sidecars.map(sidecarSection));
    return row;
  });
  return credentialRecordOf(result);
}

interface Storing {
  readonly tenantId: string;
  readonly principal: string;
  readonly name: string;
  readonly notes: ChangeNotes;
}

/**
 * Returns the row that gets a new version, or null. Deletes an outdated row that was restored in
 * the database. If no usable row exists, records the ids that the ledger still lists under this
 * name as removed, so that a database writer cannot restore their rows later.
 */
async function usableBefore(
  { guard, vault }: Services,
  tx: Transaction,
  { tenantId, principal, name, notes }: Storing,
): Promise<Credential | null> {
  const row = await tx.credential.findUnique({ where: { tenantId_name: { tenantId, name } } });
  const deps = { db: tx, query: queryIn(tx), guard, vault };
  const standings = await credentialStandings(deps, tenantId);
  if (row !== null) {
    const as = outdatedAs(standings, row);
    if (as === undefined) return row;
    reportOutdated(deps, row, as);
    await tx.credential.delete({ where: { id: row.id } });
  }
  for (const [id, standing] of standings) {
    if (standing.isRemoved || standing.name !== name) continue;
    await notes.event(removalOf({ id, name, version: standing.version }, principal));
  }
  return null;
}

/**
 * Returns tools and hosts in normalised form; throws `credential.invalid` for values that can never
 * match.
 */
function readBind({ secret, inject, bind }: Wanted): { tools: string[]; hosts: string[] } {
  const problems: string[] = [];
  const injection = injectionProblem(inject, secret);
  if (injection !== undefined) problems.push(injection);
  for (const tool of bind.tools) {
    if (!/^[0-9A-Za-z_*-]+([./:][0-9A-Za-z_*-]+)*$/.test(tool)) {
      problems.push(`bind.tools: "${tool}" is not a tool id or glob`);
    }
  }
  const hosts = bind.hosts.map((host) => {
    const normal = boundHost(host);
    if (normal === undefined) problems.push(`bind.hosts: "${host}" is not one host`);
    return normal ?? host;
  });
  if (problems.length > 0) {
    throw new GatewayError('credential.invalid', { message: `${problems.join('; ')}.` });
  }
  return { tools: [...new Set(bind.tools)], hosts: [...new Set(hosts)] };
}

import type { z } from 'zod';
import { type KeyPersons, personsOf } from '../../shared/approval/persons.ts';
import { newId } from '../../shared/base/ids.ts';
import { nameProblem } from '../../shared/base/principal.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import type { createKey as createKeyOperation, KeyRecord } from '../../shared/contract/keys.ts';
import { generateApiKey } from '../../shared/crypto/api-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { hashApiKey } from '../platform/access/key-directory.ts';
import { operator } from '../platform/access/minters.ts';
import { isReservedPrincipal } from '../platform/access/reserved-principals.ts';
import { permissionsOf } from '../platform/access/roles.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { keyRecordOf } from './list-keys.ts';

type Wanted = z.output<NonNullable<(typeof createKeyOperation)['body']>>;

/** A new key whose permissions have been checked. */
interface NewApiKey {
  readonly name: string;
  readonly role: KeyRecord['role'];
  readonly scope: KeyRecord['scope'];
  readonly principal: string;
  readonly agentId: number | undefined;
  readonly expiresAt: Date | undefined;
}

/** Creates an API key for the caller's tenant. Only this response contains the key. */
export async function createKey(
  services: Services,
  caller: Caller,
  wanted: Wanted,
): Promise<KeyRecord & { readonly key: string }> {
  const granted = grant(wanted, caller);
  const { tenantId } = caller;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const expiresAt = await boundedExpiry(tx, services, { caller, asked: wanted.expires_at });
    await requireAgent(notes, tenantId, granted.agentId);
    const wantedKey = { ...granted, expiresAt };
    return insertKey(services, notes, { tenantId, by: caller, wantedKey });
  });
  return { ...result.record, key: result.key };
}

/**
 * Returns role, scope and principal of the new key; throws `key.role_exceeds_own`. Only owners
 * choose the principal, because it counts in approvals. A key that a caller with a lower role
 * creates gets the principal of that caller.
 */
function grant(wanted: Wanted, caller: Caller): Omit<NewApiKey, 'expiresAt'> {
  const { name, role, agent_id: agentId } = wanted;
  const scope = wanted.scope ?? (role === 'gateway' ? 'gateway' : 'tenant');
  const isOwner = caller.role === 'owner';
  const exceeds = (what: string) => new GatewayError('key.role_exceeds_own', { message: what });
  if (role === 'owner' && !isOwner) throw exceeds('Only owners create owner keys.');
  for (const permission of permissionsOf(role, agentId !== undefined)) {
    if (!caller.permissions.has(permission)) {
      throw exceeds(`The role ${role} includes ${permission}, which your key lacks.`);
    }
  }
  if (scope === 'gateway' && !isOwner && caller.scope !== 'gateway') {
    throw exceeds('Only owners and gateway-scope keys create keys of gateway scope.');
  }
  if (caller.agentId !== undefined && caller.agentId !== String(agentId)) {
    throw exceeds('A key that is bound to an agent creates keys for that agent only.');
  }
  if (wanted.principal !== undefined && !isOwner) {
    throw exceeds('Only owners choose the principal of a key; leave principal out.');
  }
  const principal = isOwner ? (wanted.principal ?? name) : caller.principal;
  assertNameable({ name, principal: wanted.principal, standsFor: principal });
  return { name, role, scope, principal, agentId };
}

interface Named {
  readonly name: string;
  readonly principal: string | undefined;
  readonly standsFor: string;
}

/** Throws for a reserved name or a name that looks like a reserved one. */
function assertNameable({ name, principal, standsFor }: Named): void {
  const field = principal === undefined ? 'name' : 'principal';
  const problems = [
    ['name', nameProblem(name)],
    ['principal', principal === undefined ? undefined : nameProblem(principal)],
    [
      field,
      isReservedPrincipal(standsFor)
        ? `names such as "${standsFor}" are those of sidecars and service accounts; choose another one`
        : undefined,
    ],
  ] as const;
  for (const [where, problem] of problems) {
    if (problem === undefined) continue;
    throw new GatewayError('args.schema_invalid', { message: `${where}: ${problem}.` });
  }
}

/**
 * Returns the expiry of the new key. A key that expires cannot create a key that outlives it.
 * Owners are exempt, so that they can replace their own keys.
 */
export async function boundedExpiry(
  tx: Transaction,
  { clock, guard }: Pick<Services, 'clock' | 'guard'>,
  { caller, asked: text }: { readonly caller: Caller; readonly asked: string | undefined },
): Promise<Date | undefined> {
  const asked = text === undefined ? undefined : new Date(text);
  if (asked !== undefined && asked.getTime() <= clock.now()) {
    throw new GatewayError('args.schema_invalid', { message: 'expires_at: lies in the past.' });
  }
  if (caller.role === 'owner' || caller.keyId === undefined) return asked;
  // Reads the key again, because authentication used a cached copy.
  const keys = signedRows({ db: tx, guard }, 'api_key');
  const own = await keys.findUnique({ where: { id: caller.keyId } });
  const limit = own?.expiresAt ?? undefined;
  if (limit === undefined || asked === undefined) return asked ?? limit;
  if (asked.getTime() <= limit.getTime()) return asked;
  throw new GatewayError('key.role_exceeds_own', {
    message: `Your key expires at ${limit.toISOString()}; a key that it creates cannot expire later.`,
  });
}

async function requireAgent(
  notes: ChangeNotes,
  tenantId: string,
  agentId: number | undefined,
): Promise<void> {
  if (agentId === undefined) return;
  const count = await notes.rows('agent').count({ tenantId, id: agentId });
  if (count === 0) throw new GatewayError('agent.not_found');
}

interface Insertion {
  readonly tenantId: string;
  /** Creator of the key; undefined for the operator, who has access to the database itself. */
  readonly by: KeyPersons | undefined;
  readonly wantedKey: NewApiKey;
}

/**
 * Stores a new key and its event without a permission check, because a tenant's first key has no
 * creator whose permissions could be checked.
 */
export async function insertKey(
  { clock, vault }: Pick<Services, 'clock' | 'vault'>,
  notes: ChangeNotes,
  { tenantId, by, wantedKey }: Insertion,
): Promise<{ readonly key: string; readonly record: KeyRecord }> {
  const key = generateApiKey();
  const now = clock.now();
  const { agentId = null, expiresAt = null, ...rest } = wantedKey;
  const row = await notes.rows('api_key').create({
    ...rest,
    id: newId('key', now),
    tenantId,
    hash: hashApiKey(vault, key),
    start: key.slice(0, 8),
    last4: key.slice(-4),
    agentId,
    expiresAt,
    createdBy: by?.principal ?? operator,
    mintedBy: by === undefined ? [] : [...new Set(personsOf(by))],
    createdAt: new Date(now),
  });
  const { name, role, scope, principal } = row;
  const expires = expiresAt?.toISOString() ?? null;
  await notes.event({
    type: 'key.created',
    chainId: 'keys:api',
    data: {
      by: row.createdBy,
      minted_by: row.mintedBy.length === 0 ? undefined : row.mintedBy,
      key_id: row.id,
      name,
      role,
      scope,
      principal,
      agent_id: agentId,
      expires_at: expires,
    },
  });
  return { key, record: keyRecordOf(row) };
}

/** Roles of persons. Machines get their keys through the API. */
const roles = ['owner', 'admin', 'developer', 'approver', 'auditor'] as const;

interface OperatorKey {
  readonly tenantId: string;
  readonly role: string;
  readonly principal: string;
}

/**
 * Creates a key that has no recorded creator. A key that a person creates through the API counts as
 * that person in approvals, so the key of a second decider must be created here.
 */
export async function createOperatorKey(
  services: Services,
  { tenantId, role: wanted, principal }: OperatorKey,
): Promise<string> {
  const role = roles.find((known) => known === wanted);
  if (role === undefined) {
    throw new SettingsError(`Role ${wanted}: use one of ${roles.join(', ')}.`);
  }
  if (principal.trim() === '' || principal.length > 100 || isReservedPrincipal(principal)) {
    throw new SettingsError(
      `Principal ${JSON.stringify(principal.slice(0, 100))}: use the name of a person, of at most 100 characters.`,
    );
  }
  if ((await claimedRows(services.db, 'tenant').count({ id: tenantId })) === 0) {
    throw new SettingsError(`There is no tenant ${tenantId}.`);
  }
  const { result } = await commitChange(services, tenantId, (_tx, notes) =>
    insertKey(services, notes, {
      tenantId,
      by: undefined,
      wantedKey: {
        name: principal,
        role,
        scope: 'tenant',
        principal,
        agentId: undefined,
        expiresAt: undefined,
      },
    }),
  );
  return result.key;
}

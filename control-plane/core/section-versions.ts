import { type TenantSection, tenantSections } from '../../shared/sync/sections.ts';
import { heartbeatSection } from '../../shared/sync/signed-heartbeat.ts';
import type { Transaction } from '../platform/store/transaction.ts';

type Queries = Pick<Transaction, '$queryRaw' | '$executeRaw'>;

/** A row of `sync_section`: the current version of a section, and the published one. */
interface SectionRow {
  readonly name: string;
  readonly version: number;
  readonly publishedVersion: number;
  readonly digest: string | null;
}

interface RawRow {
  readonly name: string;
  readonly version: bigint;
  readonly published_version: bigint;
  readonly digest: string | null;
}

/** Bumps sections. Locks names in sorted order to avoid deadlocks. */
export async function bumpSections(
  tx: Queries,
  tenantId: string,
  names: readonly string[],
): Promise<void> {
  const ordered = [...new Set(names)].sort();
  await tx.$executeRaw`
    insert into sync_section (tenant_id, name, updated_at)
    select ${tenantId}, name, now() from unnest(${ordered}::text[]) with ordinality as n(name, at) order by at
    on conflict (tenant_id, name)
    do update set version = sync_section.version + 1, updated_at = now()`;
}

/** Creates missing rows for every tenant, so that the first publication needs no special case. */
export async function ensureSections(db: Queries): Promise<void> {
  await db.$executeRaw`
    insert into sync_section (tenant_id, name, updated_at)
    select t.id, n.name, now() from tenant t cross join unnest(${[...tenantSections]}::text[]) as n(name)
    where not exists (select 1 from sync_section s where s.tenant_id = t.id and s.name = n.name)
    on conflict do nothing`;
}

/** Returns, by tenant, the sections whose current version is not on the bus. */
export async function pendingSections(
  db: Queries,
  tenantId?: string,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await db.$queryRaw<{ tenant_id: string; name: string }[]>`
    select tenant_id, name from sync_section
    where published_version < version and name <> ${heartbeatSection}
      and (${tenantId ?? null}::text is null or tenant_id = ${tenantId ?? null}::text)
    order by tenant_id, name`;
  const pending = new Map<string, string[]>();
  for (const { tenant_id, name } of rows) {
    const names = pending.get(tenant_id);
    if (names === undefined) pending.set(tenant_id, [name]);
    else names.push(name);
  }
  return pending;
}

export async function readSections(
  db: Queries,
  tenantId: string,
  names: readonly string[],
): Promise<readonly SectionRow[]> {
  const rows = await db.$queryRaw<RawRow[]>`
    select name, version, published_version, digest from sync_section
    where tenant_id = ${tenantId} and name = any(${[...names]}::text[])`;
  return rows.map((row) => ({
    name: row.name,
    version: Number(row.version),
    publishedVersion: Number(row.published_version),
    digest: row.digest,
  }));
}

/**
 * Records the published version. Never lowers it, so a slow publisher of an older version changes
 * nothing.
 */
export async function markPublished(
  db: Queries,
  tenantId: string,
  {
    name,
    version,
    digest,
  }: { readonly name: string; readonly version: number; readonly digest: string },
): Promise<void> {
  await db.$executeRaw`
    update sync_section set published_version = ${version}, digest = ${digest}
    where tenant_id = ${tenantId} and name = ${name}
      and published_version < ${version} and version >= ${version}`;
}

/**
 * Raises the version of a section above `above`, if the version is still `from`. Use it when the
 * bus has a text that this database did not publish.
 */
export async function bumpBeyond(
  db: Queries,
  tenantId: string,
  { name, from, above }: { readonly name: string; readonly from: number; readonly above: number },
): Promise<void> {
  await db.$executeRaw`
    update sync_section set version = greatest(version, ${above}) + 1, updated_at = now()
    where tenant_id = ${tenantId} and name = ${name} and version = ${from}`;
}

export interface HeartbeatClaim {
  readonly sequence: number;
  readonly sections: readonly (SectionRow & { readonly name: TenantSection })[];
}

/**
 * Claims the next heartbeat, and returns its sequence and the current sections. The row lock
 * serialises processes, and sections are read after the lock, so a later heartbeat never covers an
 * older state. Returns undefined if any process claimed a heartbeat less than `notWithinMs` ago.
 */
export async function claimHeartbeat(
  tx: Queries,
  tenantId: string,
  { nowMs, notWithinMs }: { readonly nowMs: number; readonly notWithinMs: number },
): Promise<HeartbeatClaim | undefined> {
  const now = new Date(nowMs);
  const before = new Date(nowMs - notWithinMs);
  const turns = await tx.$queryRaw<{ version: bigint }[]>`
    insert into sync_section (tenant_id, name, published_version, updated_at)
    values (${tenantId}, ${heartbeatSection}, 1, ${now})
    on conflict (tenant_id, name)
    do update set version = sync_section.version + 1,
                  published_version = sync_section.version + 1, updated_at = ${now}
    where sync_section.updated_at <= ${before} or sync_section.updated_at > ${now}
    returning version`;
  const [turn] = turns;
  if (turn === undefined) return undefined;
  const sections = await readSections(tx, tenantId, tenantSections);
  // The query selects only the names of tenant sections, so the cast is safe.
  return { sequence: Number(turn.version), sections: sections as HeartbeatClaim['sections'] };
}

/** Raises the sequence above a published one, after a rollback of the database. */
export async function raiseHeartbeatSequence(
  db: Queries,
  tenantId: string,
  sequence: number,
): Promise<void> {
  await db.$executeRaw`
    update sync_section set version = greatest(version, ${sequence}),
                            published_version = greatest(version, ${sequence})
    where tenant_id = ${tenantId} and name = ${heartbeatSection}`;
}

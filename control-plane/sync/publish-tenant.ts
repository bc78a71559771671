import type { Log } from '../../shared/log.ts';
import type { SectionName } from '../../shared/sync/sections.ts';
import { isTenantSection, signSection } from '../../shared/sync/signed-section.ts';
import type { Ledger, Services, Transaction } from '../services.ts';
import { builders } from './build-sections.ts';
import { buildSidecarSection } from './build-sidecar-section.ts';
import { issueGrants } from './grants.ts';
import { publishSection } from './publish-section.ts';
import { moveBeyond, notePublished, readSections } from './section-versions.ts';
import type { SyncKeys } from './sync-keys.ts';

type Deps = Pick<Services, 'db' | 'bus' | 'clock' | 'vault'> & {
  readonly ledger: Pick<Ledger, 'record'>;
  readonly log: Log;
};

interface Work {
  readonly tenantId: string;
  readonly names: readonly string[];
  readonly keys: SyncKeys;
}

interface Buildings {
  readonly built: readonly Built[];
  readonly failures: readonly unknown[];
}

interface Built {
  readonly name: SectionName;
  readonly version: number;
  readonly body: object;
  readonly lacksGrants: boolean;
}

const ownPrefix = 'sidecar:';
const triesMax = 3;

/** Carries the named sections to the bus, as they stand in the database now. */
export async function publishTenant(deps: Deps, work: Work): Promise<void> {
  const { built, failures } = await buildWithGrants(deps, work);
  // The tenant's own first: a lease may be signed with a key that only just got into `keys`.
  for (const section of built.toSorted(tenantSectionsFirst)) {
    await publish(deps, { ...work, section });
  }
  if (failures.length > 0) throw new AggregateError(failures, 'some sections cannot be built');
}

/**
 * A section that lacks grants is never published, for nothing would move it again: its grants are
 * issued and it is built once more. What still lacks some (another decision came) stays pending.
 */
async function buildWithGrants(deps: Deps, work: Work): Promise<Buildings> {
  const { tenantId } = work;
  for (let tries = 1; ; tries++) {
    const { built, failures } = await buildSections(deps, work);
    const lacking = built.filter(({ lacksGrants }) => lacksGrants);
    if (lacking.length === 0 || tries === triesMax) {
      return { built: built.filter(({ lacksGrants }) => !lacksGrants), failures };
    }
    for (const { name } of lacking) {
      await issueGrants(deps, { tenantId, sidecarId: name.slice(ownPrefix.length) });
    }
  }
}

function tenantSectionsFirst(one: Built, other: Built): number {
  return Number(isTenantSection(other.name)) - Number(isTenantSection(one.name));
}

async function publish(
  { db, bus }: Deps,
  { tenantId, section, keys }: Pick<Work, 'tenantId' | 'keys'> & { readonly section: Built },
): Promise<void> {
  const { name, version, body } = section;
  const token = signSection({ tenant: tenantId, section: name, version, body }, keys.signing);
  const onBus = await publishSection({
    ...{ bus, keys: keys.verification, tenantId, name, version, token },
  });
  await notePublished(db, tenantId, { name, ...onBus });
  if (onBus.version > version) {
    // Faster than this process, and then the row has moved too; or the database was set back.
    await moveBeyond(db, tenantId, { name, from: version, above: onBus.version });
  }
}

/**
 * Reads versions and data in one view of the database: a version never goes out with data of
 * before or after it. A section that cannot be built is left where it is and named in `failures`.
 */
async function buildSections(deps: Deps, work: Work): Promise<Buildings> {
  const { tenantId, names } = work;
  return deps.db.$transaction(
    async (tx) => {
      const built: Built[] = [];
      const failures: unknown[] = [];
      for (const { name, version } of await readSections(tx, tenantId, names)) {
        try {
          const made = await buildBody(tx, deps, { ...work, name });
          if (made !== undefined) built.push({ name: name as SectionName, version, ...made });
        } catch (cause) {
          failures.push(new Error(`section ${name}`, { cause }));
        }
      }
      return { built, failures };
    },
    { isolationLevel: 'RepeatableRead' },
  );
}

async function buildBody(
  tx: Transaction,
  { clock, vault, log }: Deps,
  { tenantId, keys, name }: Work & { readonly name: string },
): Promise<Pick<Built, 'body' | 'lacksGrants'> | undefined> {
  const context = { tx, tenantId, nowMs: clock.now(), vault };
  if (isTenantSection(name)) return { body: await builders[name](context), lacksGrants: false };
  if (!name.startsWith(ownPrefix)) return undefined;
  const passportKey = keys.passport;
  return buildSidecarSection({ ...context, passportKey, log }, name.slice(ownPrefix.length));
}

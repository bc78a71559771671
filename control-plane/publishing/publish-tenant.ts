import type { Log } from '../../shared/base/log.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { SectionName } from '../../shared/sync/sections.ts';
import { isTenantSection, signSection } from '../../shared/sync/signed-section.ts';
import {
  bumpBeyond,
  markPublished,
  pendingSections,
  readSections,
} from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import { queryIn } from '../integrity/active-versions.ts';
import { findMissing } from '../integrity/find-missing.ts';
import type { Ledger } from '../ledger/sealing/ledger.ts';
import type { SyncKeys } from '../platform/signing-keys/sync-keys.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { builders } from './build-sections.ts';
import { buildSidecarSection } from './build-sidecar-section.ts';
import { issueGrants } from './grants.ts';
import { publishSection } from './publish-section.ts';

type Deps = Pick<Services, 'db' | 'bus' | 'clock' | 'vault' | 'guard'> & {
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
  readonly failures: ReadonlyMap<string, unknown>;
}

interface Built {
  readonly name: SectionName;
  readonly version: number;
  readonly body: object;
  readonly lacksGrants: boolean;
}

const ownPrefix = 'sidecar:';
const triesMax = 3;
const sidecarsAtOnce = 4;
const batchesMin = 10;

/**
 * Returns the id of the sidecar to which a section belongs, or undefined if the section is for all
 * sidecars.
 */
export function sidecarIdOf(name: string): string | undefined {
  return name.startsWith(ownPrefix) ? name.slice(ownPrefix.length) : undefined;
}

/**
 * Publishes a tenant's pending sections. Sections for all sidecars come first. They are checked
 * again between batches of sidecars' own sections, so that a kill switch does not wait for leases.
 * Rejects at the end if a section could not be built.
 */
export async function publishPendingSections(
  deps: Deps,
  tenantId: string,
  keys: SyncKeys,
): Promise<void> {
  const failures = new Map<string, unknown>();
  // The number of batches is limited, because heartbeats must continue even if changes never end.
  let batchesLeft = batchesMin;
  for (let batch = 0; batch < batchesLeft; batch++) {
    const pending = (await pendingSections(deps.db, tenantId)).get(tenantId) ?? [];
    if (batch === 0) batchesLeft += pending.length;
    const names = nextBatch(pending.filter((name) => !failures.has(name)));
    if (names.length === 0) break;
    const failed = await publishTenant(deps, { tenantId, names, keys });
    for (const [name, cause] of failed) failures.set(name, cause);
  }
  if (failures.size === 0) return;
  throw new AggregateError(failures.values(), `cannot publish ${[...failures.keys()].join(', ')}`);
}

function nextBatch(pending: readonly string[]): readonly string[] {
  const ofTenant = pending.filter((name) => sidecarIdOf(name) === undefined);
  return ofTenant.length > 0 ? ofTenant : pending.slice(0, sidecarsAtOnce);
}

/** Publishes the named sections. Returns those that failed, each with its error. */
async function publishTenant(deps: Deps, work: Work): Promise<ReadonlyMap<string, unknown>> {
  const { built, failures } = await buildWithGrants(deps, work);
  const done = new Set<string>();
  for (const section of built) {
    await publish(deps, { ...work, section });
    done.add(section.name);
  }
  const left = work.names.filter((name) => !done.has(name));
  return new Map(
    left.map((name) => [name, failures.get(name) ?? new Error('the section must be built again')]),
  );
}

/**
 * Builds sections. If a section lacks grants, issues the grants and builds the section again,
 * because it must not be published without them. If another decision arrives meanwhile, the section
 * stays pending.
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
      await issueGrants(deps, { tenantId, sidecarId: sidecarIdOf(name) ?? '' });
    }
  }
}

async function publish(
  { db, bus }: Deps,
  { tenantId, section, keys }: Pick<Work, 'tenantId' | 'keys'> & { readonly section: Built },
): Promise<void> {
  const { name, version, body } = section;
  const token = signSection({ tenant: tenantId, section: name, version, body }, keys.signing);
  const onBus = await publishSection({
    bus,
    keys: keys.verification,
    tenantId,
    name,
    version,
    token,
  });
  await markPublished(db, tenantId, { name, ...onBus });
  if (onBus.version > version) {
    // The bus has a later version: another process published it, or the database was rolled back.
    await bumpBeyond(db, tenantId, { name, from: version, above: onBus.version });
  }
}

/**
 * Reads versions and data in one snapshot, so that a version always matches its data. A section
 * that cannot be built is listed in `failures`.
 */
async function buildSections(deps: Deps, work: Work): Promise<Buildings> {
  const { tenantId, names } = work;
  return deps.db.$transaction(
    async (tx) => {
      const built: Built[] = [];
      const failures = new Map<string, unknown>();
      if (names.some(isTenantSection) && (await isRowMissing(tx, deps, tenantId))) {
        const cause = new GatewayError('integrity.forged_row');
        return { built, failures: new Map(names.map((name) => [name, cause])) };
      }
      for (const { name, version } of await readSections(tx, tenantId, names)) {
        try {
          const made = await buildBody(tx, deps, { ...work, name });
          if (made !== undefined) built.push({ name: name as SectionName, version, ...made });
        } catch (cause) {
          failures.set(name, cause);
        }
      }
      return { built, failures };
    },
    { isolationLevel: 'RepeatableRead' },
  );
}

/**
 * Returns whether a row is missing. Uses the same snapshot as the section: otherwise, if a binding
 * was just deleted outside the API, its removal could be published before a sweep detects it.
 */
async function isRowMissing(tx: Transaction, deps: Deps, tenantId: string): Promise<boolean> {
  const { clock, guard, vault } = deps;
  const rows = { db: tx, query: queryIn(tx), guard, vault };
  const { suspects } = await findMissing(rows, clock.now(), tenantId);
  return suspects.has(tenantId);
}

async function buildBody(
  tx: Transaction,
  { clock, vault, guard, log }: Deps,
  { tenantId, keys, name }: Work & { readonly name: string },
): Promise<Pick<Built, 'body' | 'lacksGrants'> | undefined> {
  guard.assertTrusted(tenantId);
  const context = { tx, tenantId, nowMs: clock.now(), vault, guard };
  if (isTenantSection(name)) return { body: await builders[name](context), lacksGrants: false };
  const sidecarId = sidecarIdOf(name);
  if (sidecarId === undefined) return undefined;
  return buildSidecarSection({ ...context, passportKey: keys.passport, log }, sidecarId);
}

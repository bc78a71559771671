import type { Log } from '../../shared/base/log.ts';
import { signerOf } from '../../shared/crypto/jws.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { type SectionName, sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import { openSection, sectionDigest } from '../../shared/sync/signed-section.ts';
import type { Services } from '../core/services.ts';
import { bumpBeyond, readSections } from '../sync/section-versions.ts';

type Deps = Pick<Services, 'db' | 'bus'> & { readonly log: Log };

interface Audit {
  readonly tenantId: string;
  readonly sidecarIds: readonly string[];
  readonly keys: VerificationKeys;
}

/**
 * Holds the bus against the database. A section that is not there, or is not the text that was
 * published, moves on above whatever stands there: so a flushed Redis fills again, tampering is
 * overwritten, and a database that was set back catches up. The database is read first: what
 * moves meanwhile moves by itself.
 */
export async function auditBus({ db, bus, log }: Deps, audit: Audit): Promise<void> {
  const { tenantId, sidecarIds, keys } = audit;
  const names: readonly SectionName[] = [...tenantSections, ...sidecarIds.map(sidecarSection)];
  const rows = await readSections(db, tenantId, names);
  const { sections } = await bus.load(tenantId, names);
  for (const { name, version, publishedVersion, digest } of rows) {
    if (publishedVersion !== version) continue;
    const token = sections.get(name);
    // A publisher that was slower than a rotation may have signed with the key of before.
    const isSigned = token !== undefined && keys.has(signerOf(token) ?? '');
    if (isSigned && sectionDigest(token) === digest) continue;
    const expected = { tenant: tenantId, section: name as SectionName };
    const opened = token === undefined ? undefined : openSection(token, keys, expected);
    const above = opened?.ok ? opened.envelope.version : 0;
    await bumpBeyond(db, tenantId, { name, from: version, above });
    if (token === undefined) {
      // So it is at each start with a bus in memory, or after a Redis that keeps nothing.
      log.info({ tenant: tenantId, section: name }, 'the bus lacks a section: publishing again');
    } else {
      log.warn({ tenant: tenantId, section: name }, 'the bus had another text: publishing again');
    }
  }
}

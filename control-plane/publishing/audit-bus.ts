import type { Log } from '../../shared/base/log.ts';
import { signerOf } from '../../shared/crypto/jws.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { type SectionName, sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import { openSection, sectionDigest } from '../../shared/sync/signed-section.ts';
import { bumpBeyond, readSections } from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';

type Deps = Pick<Services, 'db' | 'bus'> & { readonly log: Log };

interface Audit {
  readonly tenantId: string;
  readonly sidecarIds: readonly string[];
  readonly keys: VerificationKeys;
}

/**
 * Compares the bus with the database. If a section is missing on the bus or differs from the
 * published text, raises its version above the one on the bus, so that it is published again. This
 * repairs a flushed Redis, tampering, and a rolled-back database. Reads the database first, so that
 * a concurrent change is published at most twice.
 */
export async function auditBus({ db, bus, log }: Deps, audit: Audit): Promise<void> {
  const { tenantId, sidecarIds, keys } = audit;
  const names: readonly SectionName[] = [...tenantSections, ...sidecarIds.map(sidecarSection)];
  const rows = await readSections(db, tenantId, names);
  const { sections } = await bus.load(tenantId, names);
  for (const { name, version, publishedVersion, digest } of rows) {
    if (publishedVersion !== version) continue;
    const token = sections.get(name);
    // A publisher may have signed with the previous key during a rotation.
    const isSigned = token !== undefined && keys.has(signerOf(token) ?? '');
    if (isSigned && sectionDigest(token) === digest) continue;
    const expected = { tenant: tenantId, section: name as SectionName };
    const opened = token === undefined ? undefined : openSection(token, keys, expected);
    const above = opened?.ok ? opened.envelope.version : 0;
    await bumpBeyond(db, tenantId, { name, from: version, above });
    if (token === undefined) {
      // This is normal after a start with an in-memory bus, or with a Redis without persistence.
      log.info(
        { tenant: tenantId, section: name },
        'the bus has no text for a section; publishing it again',
      );
    } else {
      log.warn(
        { tenant: tenantId, section: name },
        'the bus has another text for a section; publishing it again',
      );
    }
  }
}

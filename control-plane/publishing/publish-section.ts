import type { Bus } from '../../shared/bus/bus.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import type { SectionName } from '../../shared/sync/sections.ts';
import { isTenantSection, openSection, sectionDigest } from '../../shared/sync/signed-section.ts';

/** A sidecar's own section expires if the sidecar's lease is not renewed for this long. */
const ownSectionTtlMs = 3_600_000;
const triesMax = 5;

interface Publication {
  readonly bus: Bus;
  /** The active `sync` key, which must have signed every text on the bus. */
  readonly keys: VerificationKeys;
  readonly tenantId: string;
  readonly name: SectionName;
  readonly version: number;
  readonly token: string;
}

interface OnBus {
  readonly version: number;
  readonly digest: string;
}

/**
 * Puts a section on the bus unless the bus has the same or a later version. Returns the version
 * that the bus then has. A try replaces only the text with which it compared the section, so the
 * highest version wins if several publishers compete. A text without a valid signature is
 * overwritten.
 */
export async function publishSection(publication: Publication): Promise<OnBus> {
  const { bus, keys, tenantId, name, version, token } = publication;
  const expectedName = { tenant: tenantId, section: name };
  const options = isTenantSection(name) ? {} : { ttlMs: ownSectionTtlMs };
  for (let tries = 0; tries < triesMax; tries++) {
    const current = await bus.read(tenantId, name);
    const opened = current === undefined ? undefined : openSection(current, keys, expectedName);
    if (opened?.ok && opened.envelope.version >= version) {
      return { version: opened.envelope.version, digest: opened.digest };
    }
    const change = { expected: current, value: token, ...options };
    if (await bus.replace(tenantId, name, change)) {
      return { version, digest: sectionDigest(token) };
    }
  }
  throw new Error(`section ${name} keeps changing on the bus`);
}

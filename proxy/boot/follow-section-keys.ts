import { systemClock } from '../../shared/base/clock.ts';
import { pinSectionKey } from '../control-plane/enrolment-file.ts';
import { SectionKeys } from '../replica/section-keys.ts';
import type { Parts } from './build-enforcement.ts';

/** Makes the replica trust new section keys when the control plane changes its keys. */
export function followSectionKeys({
  dataDir,
  enrolment,
  controlPlane,
  replica,
  log,
}: Pick<Parts, 'enrolment' | 'controlPlane' | 'replica' | 'log'> & {
  readonly dataDir: string;
}): SectionKeys {
  const sectionKeys = new SectionKeys({
    tenantId: enrolment.identity.tenantId,
    pinned: enrolment.sectionKeys,
    fetch: controlPlane.keySuccession,
    pin: (key) => pinSectionKey(dataDir, key),
    onChange: (keys) => replica.trust(keys),
    clock: systemClock,
    log,
  });
  replica.onUnknownSigner(() => sectionKeys.follow());
  return sectionKeys;
}

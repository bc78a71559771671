import { join } from 'node:path';
import type { DiskWatch } from '../../shared/base/disk-watch.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Closing } from '../base/closing.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { Enrolment } from '../control-plane/enrolment-file.ts';
import type { Config } from '../settings/config.ts';
import { watchDisk } from '../spool/disk.ts';
import { Spool } from '../spool/spool.ts';
import { Uploader } from '../spool/uploader.ts';

interface EvidenceParts {
  readonly enrolment: Enrolment;
  readonly controlPlane: Pick<ControlPlane, 'upload'>;
  readonly log: Log;
  readonly closing: Closing;
}

/** Opens the spool and starts to upload its records to the control plane. */
export function openEvidence(
  config: Config,
  { enrolment, controlPlane, log, closing }: EvidenceParts,
): { readonly spool: Spool; readonly uploader: Uploader; readonly disk: DiskWatch } {
  const spool = Spool.open({
    folder: join(config.dataDir, 'spool'),
    log,
    fsync: config.spoolFsync,
    bytesMax: config.spoolBytesMax,
  });
  closing.add(() => spool.close());
  const disk = watchDisk(config.dataDir, log);
  closing.add(() => disk.close());
  const uploader = new Uploader({
    spool,
    sidecarId: enrolment.identity.sidecarId,
    key: enrolment.signingKey,
    upload: controlPlane.upload,
    log,
  });
  closing.add(() => uploader.close());
  return { spool, uploader, disk };
}

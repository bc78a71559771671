import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../shared/base/log.ts';
import { createClient } from '../../shared/contract/base/client.ts';
import { sidecarTokenAudience } from '../../shared/contract/sidecar-token.ts';
import {
  type EnrolmentProof,
  enrolmentProofType,
  enrolWorkload,
} from '../../shared/contract/workload-enrolment.ts';
import { signJws } from '../../shared/crypto/jws.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import {
  type Enrolment,
  enrolmentOf,
  newSidecarKeys,
  readEnrolment,
  type SidecarKeys,
  sentKeys,
  storeEnrolment,
} from './enrolment-file.ts';

interface WorkloadOptions {
  readonly dataDir: string;
  readonly controlPlaneUrl: string;
  /** The projected service account token. It is read at each try, because the kubelet renews it. */
  readonly tokenFile: string;
  readonly tenantId: string | undefined;
  readonly version: string;
  readonly log: Log;
  /**
   * Called if the enrolled sidecar is not the one in the data directory, before the new enrolment
   * is stored there.
   */
  readonly onReplaced: (formerId: string | undefined) => void;
}

const firstRetryMs = 1_000;
const retryMsMax = 30_000;

/**
 * Enrols with the pod's service account token, and retries until it succeeds: the control plane may
 * be unreachable, the rule not written yet, the token about to be renewed. Uses the keys in the data
 * directory, so that a restarted container keeps its sidecar and its unsent records.
 */
export async function enrolByWorkload(options: WorkloadOptions): Promise<Enrolment> {
  const { dataDir, log, onReplaced } = options;
  const stored = storedEnrolment(options);
  const keys = stored ?? newSidecarKeys();
  for (let waitMs = firstRetryMs; ; waitMs = Math.min(2 * waitMs, retryMsMax)) {
    try {
      const enrolment = await tryEnrolment(options, keys);
      const formerId = stored?.identity.sidecarId;
      const { sidecarId } = enrolment.identity;
      if (formerId !== sidecarId) onReplaced(formerId);
      storeEnrolment(dataDir, enrolment);
      log.info({ sidecar: sidecarId }, 'the sidecar enrolled with its service account token');
      return enrolment;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      // The delay is random, so that not all pods retry at the same moment after the control plane
      // restarted.
      const retryInMs = Math.round(waitMs * (0.5 + Math.random() / 2));
      log.warn(
        { reason_code: error.code, detail: error.message, retry_in_ms: retryInMs },
        'the sidecar could not enrol with its service account token and retries',
      );
      await delay(retryInMs);
    }
  }
}

/** Returns the stored enrolment. Ignores a damaged file, because the pod can enrol new keys. */
function storedEnrolment({ dataDir, log }: WorkloadOptions): Enrolment | undefined {
  try {
    return readEnrolment(dataDir);
  } catch (err) {
    log.warn({ err }, 'the stored enrolment cannot be read; the sidecar enrols with new keys');
    return undefined;
  }
}

async function tryEnrolment(
  { controlPlaneUrl, tokenFile, tenantId, version }: WorkloadOptions,
  keys: SidecarKeys,
): Promise<Enrolment> {
  const token = await readToken(tokenFile);
  const sent = sentKeys(keys);
  const proof: EnrolmentProof = {
    aud: sidecarTokenAudience,
    token_sha256: hash('sha256', token, 'hex'),
    encryption_x: sent.encryption_jwk.x,
  };
  const client = createClient({ baseUrl: `${controlPlaneUrl}/api`, authorization: () => '' });
  const enrolled = await client.call(enrolWorkload, {
    body: {
      token,
      ...(tenantId === undefined ? {} : { tenant_id: tenantId }),
      ...sent,
      proof: signJws(proof, enrolmentProofType, keys.signingKey),
      version,
    },
  });
  return enrolmentOf(keys, enrolled);
}

async function readToken(path: string): Promise<string> {
  try {
    const token = (await readFile(path, 'utf8')).trim();
    if (token !== '') return token;
  } catch (cause) {
    throw unreadable(path, (cause as NodeJS.ErrnoException).code ?? 'unreadable', cause);
  }
  throw unreadable(path, 'it is empty');
}

function unreadable(path: string, problem: string, cause?: unknown): GatewayError {
  return new GatewayError('workload.token_unreadable', {
    message: `The file of the workload token, ${path}, cannot be read (${problem}); mount a projected service account token there, or correct SALLYPORT_WORKLOAD_TOKEN_FILE.`,
    cause,
  });
}

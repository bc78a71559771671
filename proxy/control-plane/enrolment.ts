import { SettingsError } from '../../shared/base/settings.ts';
import { createClient } from '../../shared/contract/base/client.ts';
import { enrolSidecar } from '../../shared/contract/sidecars.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import {
  type Enrolment,
  enrolmentOf,
  newSidecarKeys,
  readEnrolment,
  sentKeys,
  storeEnrolment,
} from './enrolment-file.ts';

interface EnrolmentOptions {
  readonly dataDir: string;
  readonly controlPlaneUrl: string;
  readonly token: string | undefined;
  readonly version: string;
}

/** Loads the stored enrolment, or enrols with the token. */
export async function enrol(options: EnrolmentOptions): Promise<Enrolment> {
  const { dataDir, token } = options;
  const stored = readEnrolment(dataDir);
  if (stored !== undefined) return stored;
  if (token === undefined) {
    throw new SettingsError(
      'This sidecar is not enrolled: set SALLYPORT_ENROLMENT_TOKEN to a token from POST /v1/sidecars/tokens.',
    );
  }
  const enrolment = await enrolAnew(options, token);
  storeEnrolment(dataDir, enrolment);
  return enrolment;
}

async function enrolAnew(
  { controlPlaneUrl, version }: EnrolmentOptions,
  token: string,
): Promise<Enrolment> {
  const keys = newSidecarKeys();
  const client = createClient({ baseUrl: `${controlPlaneUrl}/api`, authorization: () => '' });
  const body = { token, ...sentKeys(keys), version };
  const enrolled = await client.call(enrolSidecar, { body }).catch((error: unknown) => {
    throw explained(error, controlPlaneUrl);
  });
  return enrolmentOf(keys, enrolled);
}

/** Explains the failures that an operator can repair. */
function explained(error: unknown, controlPlaneUrl: string): unknown {
  if (!(error instanceof GatewayError)) return error;
  if (error.code === 'sidecar.token_invalid') {
    return new SettingsError(
      'SALLYPORT_ENROLMENT_TOKEN is not valid: it is mistyped, used or expired. Get a new one from POST /v1/sidecars/tokens.',
      { cause: error },
    );
  }
  if (error.code === 'agent.disabled') {
    return new SettingsError(
      'SALLYPORT_ENROLMENT_TOKEN is for an agent that is disabled: enable it with PATCH /v1/agents/{id} and {"disabled": false}, or get a token for another agent.',
      { cause: error },
    );
  }
  if (error.kind.isUnanswered !== true) return error;
  return new SettingsError(
    `The control plane does not answer at ${controlPlaneUrl}: start it first, or correct SALLYPORT_CONTROL_PLANE_URL.`,
    { cause: error },
  );
}

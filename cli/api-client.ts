import fs from 'node:fs';
import { z } from 'zod';
import { httpUrl, parseSettings, SettingsError } from '../shared/base/settings.ts';
import { type Client, createClient } from '../shared/contract/base/client.ts';
import { errorKindOf, errorKinds } from '../shared/errors/error-kinds.ts';
import { GatewayError } from '../shared/errors/gateway-error.ts';
import { findRunning } from './running-instance.ts';

const schema = z.object({
  SALLYPORT_CONTROL_PLANE_URL: httpUrl('http://127.0.0.1:8080').optional(),
  SALLYPORT_API_KEY: z.string().optional(),
});

/** Options of every command that calls the API, for `parseArgs`. */
export const apiOptions = {
  url: { type: 'string' },
  'key-file': { type: 'string' },
  json: { type: 'boolean' },
} as const;

interface ApiArguments {
  readonly url?: string | undefined;
  readonly 'key-file'?: string | undefined;
}

/**
 * A client of the control plane. The key comes from the environment or a file, never from an
 * argument: other users of the machine can read those.
 */
export function apiClient({ url, 'key-file': keyFile }: ApiArguments): Client {
  const readFile = (path: string) => fs.readFileSync(path, 'utf8');
  const settings = parseSettings(schema, { env: process.env, readFile });
  const givenUrl = url ?? settings.SALLYPORT_CONTROL_PLANE_URL;
  const givenKey = keyFile === undefined ? settings.SALLYPORT_API_KEY : readKey(keyFile, readFile);
  // Its key goes to no other address than its own.
  const running = givenUrl === undefined ? findRunning(process.env) : undefined;
  const key = givenKey ?? running?.ownerKey;
  if (key === undefined || key === '') {
    throw new SettingsError(
      'This needs an API key: no embedded instance runs on this folder (SALLYPORT_DATA_DIR), so set SALLYPORT_API_KEY or SALLYPORT_API_KEY_FILE, or give --key-file FILE.',
    );
  }
  const origin = (givenUrl ?? running?.origin ?? 'http://127.0.0.1:8080').replace(
    /\/+(api\/?)?$/,
    '',
  );
  if (!URL.canParse(origin) || !/^https?:\/\//i.test(origin)) {
    throw new SettingsError(
      `--url: ${origin} must begin with http:// or https://, as in http://127.0.0.1:8080.`,
    );
  }
  const client = createClient({ baseUrl: `${origin}/api`, authorization: () => `Bearer ${key}` });
  return {
    call: async (operation, ...input) => {
      try {
        return await client.call(operation, ...input);
      } catch (error) {
        throw error instanceof GatewayError ? told(error, origin) : error;
      }
    },
    open: async (operation, input) => {
      try {
        return await client.open(operation, input);
      } catch (error) {
        throw error instanceof GatewayError ? told(error, origin) : error;
      }
    },
  };
}

function readKey(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path).trim();
  } catch (cause) {
    throw new SettingsError(`--key-file names a file that cannot be read: ${path}`, { cause });
  }
}

/** What the API refused, with what the operator can do about it. */
function told({ code, message, details }: GatewayError, origin: string): SettingsError {
  // The message of an expired key says what to do.
  const advice = details?.expired_at === undefined ? adviceOn(code, origin) : '';
  return new SettingsError(`${message}${advice}`, { cause: { code, details } });
}

function adviceOn(code: GatewayError['code'], origin: string): string {
  if (errorKindOf(code)?.isUnanswered === true) {
    return ` It was sought at ${origin}: is it running there? SALLYPORT_CONTROL_PLANE_URL or --url say where it is.`;
  }
  if (code === 'auth.invalid_key')
    return ' Was it revoked, or is it a key of another installation?';
  if (code === 'auth.insufficient_permission') {
    return ' Use a key whose role has it: GET /api/v1/keys lists them.';
  }
  if (code === 'approval.not_found')
    return ' sallyport approvals list --all shows which there are.';
  if (code === 'kill_switch.not_found') {
    return ' sallyport kill-switch list shows the ids of those that are armed.';
  }
  if (code === 'agent.not_found')
    return ' POST /api/v1/agents/register makes one and tells its id.';
  return errorKinds[code].retryable ? ' Trying again later may help.' : '';
}

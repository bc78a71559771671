import fs from 'node:fs';
import { z } from 'zod';
import { httpUrl, parseSettings, SettingsError } from '../../shared/base/settings.ts';
import { type Client, createClient } from '../../shared/contract/base/client.ts';
import { errorKindOf, errorKinds } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { findRunning } from './running-instance.ts';

const schema = z.object({
  SALLYPORT_CONTROL_PLANE_URL: httpUrl('http://127.0.0.1:8080').optional(),
  SALLYPORT_API_KEY: z.string().optional(),
});

/** Options of every command that calls the API. */
export interface ApiOptions {
  readonly url?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** A client of the control plane, with the key from a setting, a file or the embedded instance. */
export function apiClient({ url, keyFile }: ApiOptions): Client {
  const readFile = (path: string) => fs.readFileSync(path, 'utf8');
  const settings = parseSettings(schema, { env: process.env, readFile });
  const givenUrl = url ?? settings.SALLYPORT_CONTROL_PLANE_URL;
  const givenKey = keyFile === undefined ? settings.SALLYPORT_API_KEY : readKey(keyFile, readFile);
  // The key of an embedded instance is sent to that instance only.
  const running = givenUrl === undefined ? findRunning(process.env) : undefined;
  const key = givenKey ?? running?.ownerKey;
  if (key === undefined || key === '') {
    throw new SettingsError(
      'This command needs an API key, and no embedded instance runs on this folder (SALLYPORT_DATA_DIR). Set SALLYPORT_API_KEY or SALLYPORT_API_KEY_FILE, or pass --key-file FILE.',
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
    call: (operation, ...input) => withAdvice(client.call(operation, ...input), origin),
    open: (operation, input) => withAdvice(client.open(operation, input), origin),
  };
}

function readKey(path: string, readFile: (path: string) => string): string {
  try {
    return readFile(path).trim();
  } catch (cause) {
    throw new SettingsError(`--key-file: cannot read ${path}.`, { cause });
  }
}

/** Adds advice for the operator to an API error. */
async function withAdvice<Answer>(answer: Promise<Answer>, origin: string): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const { code, message, details } = error;
    // The message for an expired key already says what to do.
    const advice = details?.expired_at === undefined ? adviceOn(code, origin) : '';
    throw new SettingsError(`${message}${advice}`, { cause: { code, details } });
  }
}

function adviceOn(code: GatewayError['code'], origin: string): string {
  if (errorKindOf(code)?.isUnanswered === true) {
    return ` The control plane was expected at ${origin}: is it running there? Set SALLYPORT_CONTROL_PLANE_URL or --url to its address.`;
  }
  if (code === 'auth.invalid_key') {
    return ' It may be revoked, or belong to another installation.';
  }
  if (code === 'auth.insufficient_permission') {
    return ' Use a key whose role has it: GET /api/v1/keys lists them.';
  }
  if (code === 'approval.not_found') return ' Run `sallyport approvals list --all` for the ids.';
  if (code === 'kill_switch.not_found') {
    return ' Run `sallyport kill-switch list` for the ids of armed kill switches.';
  }
  if (code === 'agent.not_found') {
    return ' POST /api/v1/agents/register registers an agent and returns its id.';
  }
  return errorKinds[code].retryable ? ' Try again later.' : '';
}

import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { isJsonObject } from '../../shared/base/json.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { streamEvidence } from '../../shared/contract/evidence/evidence-reading.ts';
import { errorKindOf } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { say } from '../policy/say.ts';
import { filterOptions, readFilters } from './filters.ts';
import { type ServerMessage, serverMessages } from './server-messages.ts';

const againMs = 1_000;

/** `sallyport evidence tail`: events as they are sealed, until it is interrupted. */
export async function tail(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      ...apiOptions,
      ...filterOptions,
      after: { type: 'string' },
      count: { type: 'string' },
    },
  });
  const client = apiClient(values);
  const filters = readFilters(values);
  const most = readCount(values.count);
  let cursor = values.after;
  for (let shown = 0; ; ) {
    try {
      const query = { ...filters, ...(cursor !== undefined && { cursor }) };
      for await (const message of serverMessages(await client.open(streamEvidence, { query }))) {
        cursor = message.id;
        if (message.data === '') continue;
        show(message, values.json === true);
        shown += 1;
        if (shown === most) return 0;
      }
    } catch (error) {
      // What has begun goes on where it was; what cannot begin says why.
      if (cursor === undefined || !mayPass(error)) throw error;
    }
    await pause(againMs);
  }
}

function readCount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new SettingsError('--count: must be a number of events.');
}

function mayPass(error: unknown): boolean {
  if (error instanceof GatewayError) return error.kind.retryable;
  const cause = error instanceof SettingsError ? error.cause : undefined;
  const code = isJsonObject(cause) ? cause.code : undefined;
  return typeof code === 'string' && errorKindOf(code)?.retryable === true;
}

const shown = [
  'position',
  'occurred_at',
  'type',
  'agent_id',
  'tool',
  'decision',
  'reason_code',
] as const;

function show({ data }: ServerMessage, isJson: boolean): void {
  const event: unknown = JSON.parse(data);
  if (!isJsonObject(event)) throw new Error('the stream brought something that is no event');
  if (isJson) say([data]);
  else say([shown.map((name) => String(event[name] ?? '-')).join('  ')]);
}

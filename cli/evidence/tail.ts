import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject } from '../../shared/base/json.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { streamEvidence } from '../../shared/contract/evidence/evidence-reading.ts';
import { errorKindOf } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { serverSentEvents } from '../support/server-sent-events.ts';
import { printLines } from '../support/terminal.ts';
import { type FilterOptions, filterQuery } from './filters.ts';

interface Options extends ApiOptions, FilterOptions {
  /** Cursor of the event after which the output begins. */
  readonly after?: string;
  readonly count?: number;
  readonly json?: boolean;
}

const reconnectMs = 1_000;
/** Maximum length of an event in the stream, far above that of the longest event. */
const charactersMax = 16_777_216;

/** `sallyport evidence tail`. */
export async function tail(options: Options): Promise<number> {
  const client = apiClient(options);
  const filters = filterQuery(options);
  let cursor = options.after;
  for (let printed = 0; ; ) {
    try {
      const query = { ...filters, ...(cursor !== undefined && { cursor }) };
      const stream = await client.open(streamEvidence, { query });
      for await (const { id, data } of serverSentEvents(stream, { charactersMax })) {
        cursor = id ?? cursor;
        if (data === undefined) continue;
        printEvent(data, options.json === true);
        printed += 1;
        if (printed === options.count) return 0;
      }
    } catch (error) {
      // Without a cursor, resuming could skip events.
      if (cursor === undefined || !isTransient(error)) throw error;
    }
    await delay(reconnectMs);
  }
}

function isTransient(error: unknown): boolean {
  if (error instanceof GatewayError) return error.kind.retryable;
  const cause = error instanceof SettingsError ? error.cause : undefined;
  const code = isJsonObject(cause) ? cause.code : undefined;
  return typeof code === 'string' && errorKindOf(code)?.retryable === true;
}

const columns = [
  'position',
  'occurred_at',
  'type',
  'agent_id',
  'tool',
  'decision',
  'reason_code',
] as const;

function printEvent(data: string, isJson: boolean): void {
  const event: unknown = JSON.parse(data);
  if (!isJsonObject(event)) throw new Error('The event stream contains data that is not an event.');
  if (isJson) printLines([data]);
  else printLines([columns.map((name) => String(event[name] ?? '-')).join('  ')]);
}

import { Redis, type RedisOptions } from 'ioredis';
import { z } from 'zod';
import type { Log } from '../base/log.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Script } from './redis-scripts.ts';

const commandTimeoutMs = 1_000;

interface ConnectionOptions {
  readonly name: string;
  readonly log: Log;
  readonly commandTimeoutMs?: number;
}

/**
 * Opens a connection on which no command waits indefinitely: a command fails if it cannot be sent
 * at once or gets no reply in time. Commands are never sent twice, because a repeated claim would
 * find its own key.
 */
export function connectRedis(url: string, options: ConnectionOptions): Redis {
  const timeoutMs = options.commandTimeoutMs ?? commandTimeoutMs;
  const settings = {
    protocol: 2 as const,
    connectionName: `sallyport-${options.name}`,
    connectTimeout: 1_500,
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs + 1_000,
    enableOfflineQueue: false,
    autoResubscribe: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 6), 1_000),
  } satisfies RedisOptions;
  const redis = new Redis(url, settings);
  reportState(redis, options);
  return redis;
}

/** Logs each change between reachable and unreachable once, not every failed attempt. */
function reportState(redis: Redis, { name, log }: ConnectionOptions): void {
  let down = false;
  redis.on('error', (error: Error) => {
    if (down) return;
    down = true;
    log.error({ connection: name, error: error.message }, 'the sync bus is unreachable');
  });
  redis.on('ready', () => {
    if (down) log.info({ connection: name }, 'the sync bus is reachable again');
    down = false;
  });
}

/** Resolves when the connection is usable, and at the latest after `withinMs`. */
export function waitUntilReady(redis: Redis, withinMs: number): Promise<void> {
  if (redis.status === 'ready') return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      redis.off('ready', done);
      redis.off('end', done);
      resolve();
    };
    const timer = setTimeout(done, withinMs);
    redis.once('ready', done);
    redis.once('end', done);
  });
}

/** Runs a script by its hash, or by its text if Redis has not cached it. */
export async function runScript(
  redis: Redis,
  script: Script,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  try {
    return await redis.evalsha(script.sha1, keys.length, ...keys, ...args);
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
    return await redis.eval(script.source, keys.length, ...keys, ...args);
  }
}

/** Wraps any Redis failure as `bus.unavailable`. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('bus.unavailable', { cause });
}

/** Parses a Redis reply. An unexpected reply counts as a failure of the bus. */
export function answer<Schema extends z.ZodType>(schema: Schema, reply: unknown): z.output<Schema> {
  const parsed = schema.safeParse(reply);
  if (parsed.success) return parsed.data;
  throw unavailable(new Error(`unexpected reply: ${z.prettifyError(parsed.error)}`));
}

/**
 * Reads Redis' eviction policy: `hidden` if Redis does not show it, `no answer` if the connection
 * was lost or the request timed out. Uses INFO, because hosted services and restricted users lack
 * CONFIG.
 */
export async function readEviction(
  redis: Redis,
  log: Log,
): Promise<{ readonly policy: string } | 'hidden' | 'no answer'> {
  try {
    const policy = /^maxmemory_policy:(\S+)/m.exec(await redis.info('memory'))?.[1];
    return policy === undefined ? 'hidden' : { policy };
  } catch (error) {
    log.debug({ err: error }, 'reading the eviction policy of Redis failed');
    return (error as Error).name === 'ReplyError' ? 'hidden' : 'no answer';
  }
}

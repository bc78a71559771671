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
 * A connection that never waits without end: what cannot be sent now, or is not answered in
 * time, fails; nothing is sent twice (a claim that was sent again would find itself taken).
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

/** Logs the change between reachable and not, once each, rather than every failed try. */
function reportState(redis: Redis, { name, log }: ConnectionOptions): void {
  let down = false;
  redis.on('error', (error: Error) => {
    if (down) return;
    down = true;
    log.error({ connection: name, error: error.message }, 'the sync bus cannot be reached');
  });
  redis.on('ready', () => {
    if (down) log.info({ connection: name }, 'the sync bus answers again');
    down = false;
  });
}

/** Resolves when the connection is usable, or after `withinMs` all the same. */
export function settled(redis: Redis, withinMs: number): Promise<void> {
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

/** Runs a script by its hash, and by its text when this Redis has not seen it yet. */
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

/** Whatever went wrong on the way to Redis and back, in the one form that callers know. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('bus.unavailable', { cause });
}

/** Reads an answer of Redis, or fails as if there had been none. */
export function answer<Schema extends z.ZodType>(schema: Schema, reply: unknown): z.output<Schema> {
  const parsed = schema.safeParse(reply);
  if (parsed.success) return parsed.data;
  throw unavailable(new Error(`unexpected reply: ${z.prettifyError(parsed.error)}`));
}

/**
 * The eviction policy of this Redis: `hidden` if Redis does not show it, `no answer` if the connection
 * or its time ended first. INFO is asked, not CONFIG: hosted services and confined users lack the latter.
 */
export async function readEviction(
  redis: Redis,
  log: Log,
): Promise<{ readonly policy: string } | 'hidden' | 'no answer'> {
  try {
    const policy = /^maxmemory_policy:(\S+)/m.exec(await redis.info('memory'))?.[1];
    return policy === undefined ? 'hidden' : { policy };
  } catch (error) {
    log.debug({ err: error }, 'the eviction policy of Redis could not be read');
    return (error as Error).name === 'ReplyError' ? 'hidden' : 'no answer';
  }
}

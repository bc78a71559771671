import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { Log } from '../base/log.ts';
import type { Follower } from './bus.ts';
import { answer, runScript, waitUntilReady } from './redis-connection.ts';
import { sinceScript } from './redis-scripts.ts';
import type { TenantKeys } from './tenant-keys.ts';

/**
 * Duration of one blocking read. It is also the delay after which an emptied stream is detected.
 */
export const blockMs = 1_000;
const entriesPerRead = 500;
const pauseAfterFailureMs = 100;

const sinceReply = z.tuple([z.enum(['ok', 'gap'])], z.string());
const valuesReply = z.array(z.string().nullable());

interface Following {
  readonly redis: Redis;
  readonly keys: TenantKeys;
  readonly from: string;
  readonly follower: Follower;
  readonly log: Log;
  readonly closed: AbortSignal;
}

interface Entry {
  readonly id: string;
  readonly name: string;
}

/**
 * Follows one stream until closed, on a connection of its own. Each round runs one atomic script,
 * which reads the new entries and checks that the last delivered entry still exists. The blocking
 * read only triggers the next round, so no entry is lost between rounds.
 */
export async function followStream(following: Following): Promise<void> {
  const { redis, log, closed } = following;
  let position = following.from;
  while (!closed.aborted) {
    try {
      const next = await readOnce(following, position);
      if (next === position) await waitForNews(following, position);
      position = next;
    } catch (error) {
      if (closed.aborted) return;
      log.debug({ err: error }, 'following the sync bus failed; trying again');
      await waitUntilReady(redis, blockMs);
      await pause(closed);
    }
  }
}

/** Delivers the entries after `position`; returns the position to continue from. */
async function readOnce(following: Following, position: string): Promise<string> {
  const { redis, keys, follower, closed } = following;
  const reply = await runScript(redis, sinceScript, [keys.stream], [position, entriesPerRead]);
  const [outcome, ...rest] = answer(sinceReply, reply);
  if (outcome === 'gap') {
    if (!closed.aborted) follower.onGap();
    await pause(closed);
    return rest[0] ?? '0-0';
  }
  const entries = pairs(rest);
  await deliver(following, entries);
  return entries.at(-1)?.id ?? position;
}

async function deliver(following: Following, entries: readonly Entry[]): Promise<void> {
  const { redis, keys, follower, closed } = following;
  const wanted = latestOfEach(entries).filter(({ name }) => follower.wants?.(name) ?? true);
  if (wanted.length === 0) return;
  const sections = wanted.map(({ name }) => keys.section(name));
  const values = answer(valuesReply, await redis.mget(sections));
  for (const [index, { id, name }] of wanted.entries()) {
    const value = values[index];
    // The section expired or was deleted after this change. The heartbeat lists the sections that
    // are current.
    if (typeof value !== 'string') continue;
    if (closed.aborted) return;
    follower.onChange({ id, name, value });
  }
}

async function waitForNews({ redis, keys }: Following, position: string): Promise<void> {
  await redis.call('XREAD', 'COUNT', 1, 'BLOCK', blockMs, 'STREAMS', keys.stream, position);
}

function latestOfEach(entries: readonly Entry[]): readonly Entry[] {
  const latest = new Map<string, Entry>();
  for (const entry of entries) {
    latest.delete(entry.name);
    latest.set(entry.name, entry);
  }
  return [...latest.values()];
}

function pairs(flat: readonly string[]): readonly Entry[] {
  const entries: Entry[] = [];
  for (let index = 0; index + 1 < flat.length; index += 2) {
    entries.push({ id: flat[index] ?? '', name: flat[index + 1] ?? '' });
  }
  return entries;
}

function pause(closed: AbortSignal): Promise<void> {
  if (closed.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      closed.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, pauseAfterFailureMs);
    closed.addEventListener('abort', done);
  });
}

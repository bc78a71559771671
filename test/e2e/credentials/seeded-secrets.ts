import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { Separate } from '../../support/system/separate.ts';

/** Returns a secret that looks different in each encoding. */
export const seedSecret = (name: string) => `${name}/+ "<&>_${randomBytes(12).toString('base64')}`;

/** Returns the forbidden texts: the secret itself and its common encodings. */
export function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Keeps the characters that depend only on the secret, not on the bytes before and after it.
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams({ s: secret }).toString().slice(2),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
  ];
}

/**
 * The data to search. Each key names where its value comes from, such as a file, a table or a
 * response.
 */
export type Places = Map<string, Buffer>;

/** Returns the keys of the data that contains any form of any of the secrets. */
export function placesWith(places: Places, secrets: readonly string[]): string[] {
  const forms = secrets.flatMap(formsOf).map((text) => Buffer.from(text));
  return [...places]
    .filter(([, bytes]) => forms.some((form) => bytes.includes(form)))
    .map(([name]) => name);
}

/** Adds every file below a folder to `places`. */
export function filesBelow(folder: string, places: Places): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    places.set(path, readFileSync(path));
  }
}

/** Adds what the operating system shows about a program's process, and the program's output, to `places`. */
export function processSurface(name: string, program: Separate['sidecar'], places: Places): void {
  places.set(`${name} output`, Buffer.from(program.output()));
  for (const file of ['cmdline', 'environ']) {
    places.set(`${name} ${file}`, readFileSync(`/proc/${program.pid}/${file}`));
  }
}

/** Adds every row of every table to `places`. */
export async function wholeDatabase(url: string, places: Places): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const tables = await client.query<{ schema: string; name: string }>(
      `SELECT table_schema AS schema, table_name AS name FROM information_schema.tables
       WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'`,
    );
    for (const { schema, name } of tables.rows) {
      const rows = await client.query<{ text: string }>(
        `SELECT t::text AS text FROM "${schema}"."${name}" t`,
      );
      places.set(`table ${name}`, Buffer.from(rows.rows.map(({ text }) => text).join('\n')));
    }
  } finally {
    await client.end();
  }
}

/** Adds every key of a Redis, with its value, to `places`. */
export async function wholeRedis(url: string, places: Places): Promise<void> {
  const redis = new Redis(url);
  try {
    for (const key of await redis.keys('*')) {
      places.set(`redis ${key}`, Buffer.from(JSON.stringify(await contentOf(redis, key))));
    }
  } finally {
    redis.disconnect();
  }
}

async function contentOf(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  switch (type) {
    case 'string':
      return redis.get(key);
    case 'stream':
      return redis.xrange(key, '-', '+');
    case 'hash':
      return redis.hgetall(key);
    case 'set':
      return redis.smembers(key);
    case 'zset':
      return redis.zrange(key, '0', '-1');
    case 'list':
      return redis.lrange(key, 0, -1);
    default:
      throw new Error(`a ${type} is not looked into`);
  }
}

/** Adds every page of the admin port, and every list of the control plane's API, to `places`. */
export async function everyAnswer(
  { adminUrl, origin, api, ownerKey }: Separate,
  places: Places,
): Promise<void> {
  for (const path of ['/healthz', '/readyz', '/metrics', '/ca.crt', '/none']) {
    places.set(`admin ${path}`, Buffer.from(await (await fetch(adminUrl + path)).text()));
  }
  for (const path of ['/healthz', '/readyz', '/metrics']) {
    places.set(`control plane ${path}`, Buffer.from(await (await fetch(origin + path)).text()));
  }
  const document = (await (await fetch(`${origin}/api/v1/openapi.json`)).json()) as {
    readonly paths: Readonly<Record<string, { readonly get?: unknown }>>;
  };
  for (const [path, { get }] of Object.entries(document.paths)) {
    if (get === undefined || path.includes('{')) continue;
    if (JSON.stringify(get).includes('text/event-stream')) {
      places.set(
        `api ${path}`,
        await beginningOf(`${origin}/api${path.replace(/^\/api/, '')}`, ownerKey),
      );
      continue;
    }
    const answer = await api('GET', path.replace(/^\/api/, '')).catch((error: Error) => error);
    places.set(`api ${path}`, Buffer.from(JSON.stringify(answer)));
  }
}

/** Returns what an endless stream sends within two seconds, starting after the oldest event. */
async function beginningOf(url: string, ownerKey: string): Promise<Buffer> {
  const headers = { authorization: `Bearer ${ownerKey}` };
  const { events } = (await (
    await fetch(url.replace(/stream$/, 'events?limit=1'), { headers })
  ).json()) as { events: readonly { readonly cursor: string }[] };
  const cursor = events[0]?.cursor ?? '';
  const stream = await fetch(`${url}?cursor=${cursor}`, {
    headers,
    signal: AbortSignal.timeout(2_000),
  });
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of stream.body ?? []) chunks.push(chunk);
  } catch (error) {
    if ((error as Error).name !== 'TimeoutError') throw error;
  }
  if (chunks.length === 0) throw new Error('the stream said nothing');
  return Buffer.concat(chunks);
}

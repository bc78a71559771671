import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { type Guard, literalRefusal } from '../../shared/upstream/address-guard.ts';

interface JsonRequest {
  readonly url: string;
  /** Sent as JSON with POST; undefined: GET. */
  readonly body?: object | undefined;
  readonly tokenFile?: string | undefined;
  /** PEM; the only trusted authorities. Undefined: those of Node. */
  readonly caFile?: string | undefined;
  /** Checks the address of a URL that the operator did not configure. */
  readonly guard?: Guard | undefined;
}

const answerMs = 5_000;
const bytesMax = 512 * 1024;

/**
 * Requests a JSON object over TLS. Follows no redirect, because the token must reach no other
 * origin. Rejects with an error that states the cause and quotes nothing of the response.
 */
export async function fetchJson({
  url,
  body,
  tokenFile,
  caFile,
  guard,
}: JsonRequest): Promise<JsonObject> {
  const token = tokenFile === undefined ? undefined : (await readFile(tokenFile, 'utf8')).trim();
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8');
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const res = await open({ url, payload, token, ca, guard });
  if (res.statusCode !== 200 && res.statusCode !== 201) {
    res.destroy();
    throw new Error(`${url} answered with status ${res.statusCode}`);
  }
  const read = parse(await readBody(res, url));
  if (!isJsonObject(read)) throw new Error(`${url} did not answer with a JSON object`);
  return read;
}

interface Opening {
  readonly url: string;
  readonly payload: string | undefined;
  readonly token: string | undefined;
  readonly ca: string | undefined;
  readonly guard: Guard | undefined;
}

function open({ url, payload, token, ca, guard }: Opening): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const target = new URL(url);
  const port = Number(target.port || 443);
  // The socket calls `lookup` for names only.
  const refused = guard && literalRefusal(guard, target.hostname.replace(/^\[|\]$/g, ''), port);
  if (refused !== undefined) return Promise.reject(refused);
  const req = request(
    target,
    {
      method: payload === undefined ? 'GET' : 'POST',
      headers: {
        accept: 'application/json, application/jwk-set+json',
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      agent: false,
      // Set explicitly, so that no environment variable can disable verification.
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      signal: AbortSignal.timeout(answerMs),
      ...(ca === undefined ? {} : { ca }),
      ...(guard === undefined ? {} : { lookup: guard.lookup(port) }),
    },
    resolve,
  );
  req.on('error', (error: Error) => reject(explained(error, url)));
  req.end(payload);
  return promise;
}

function explained(error: Error, url: string): Error {
  const isLate = error.name === 'AbortError' || error.name === 'TimeoutError';
  const text = isLate ? `no complete response within ${answerMs} ms` : error.message;
  return new Error(`${url}: ${text}`, { cause: error });
}

async function readBody(res: IncomingMessage, url: string): Promise<string> {
  const chunks: Buffer[] = [];
  let left = bytesMax;
  try {
    for await (const chunk of res as AsyncIterable<Buffer>) {
      left -= chunk.length;
      if (left < 0) throw new Error(`the response is longer than ${bytesMax} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    throw explained(error as Error, url);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { parseSettings, SettingsError } from '../../shared/base/settings.ts';
import { stopSignal } from '../stop-signal.ts';
import { type Child, startChild } from './child.ts';
import { Endpoint } from './endpoint.ts';
import { linesOf } from './lines.ts';
import { findPlace, sidecarSettings, throughSidecar } from './through-sidecar.ts';
import { Uplink } from './uplink.ts';

export const usage = `Usage: sallyport mcp --name NAME -- COMMAND [ARGS…]

NAME is that of an MCP binding whose host is a free loopback port, such as 127.0.0.1:7391.
Where the sidecar is: SALLYPORT_PROXY_HOST, SALLYPORT_PROXY_PORT, SALLYPORT_PROXY_TOKEN.`;

/**
 * `sallyport mcp --name NAME -- CMD`: stands between an MCP client, on standard input and output,
 * and a local MCP server, so that every message of the client goes through the sidecar.
 */
export async function mcp(args: readonly string[]): Promise<number> {
  if (args[0] === '--help') {
    console.log(usage);
    return 0;
  }
  const { name, command } = readArguments(args);
  const readFile = (path: string) => fs.readFileSync(path, 'utf8');
  const sidecar = throughSidecar(parseSettings(sidecarSettings, { env: process.env, readFile }));
  const session = randomBytes(32).toString('base64url');
  try {
    const place = await findPlace(sidecar, name);
    const child = await startChild(command);
    const endpoint = new Endpoint({ child, session });
    const uplink = new Uplink({ sidecar, url: place.url, session, write: writeLine, warn });
    try {
      await endpoint.listen(place);
      return await carry({ child, endpoint, uplink });
    } finally {
      await child.end();
      endpoint.close();
    }
  } finally {
    sidecar.close();
    process.stdin.destroy();
  }
}

function readArguments(args: readonly string[]): { name: string; command: readonly string[] } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { name: { type: 'string' } },
    allowPositionals: true,
  });
  if (values.name === undefined || positionals.length === 0) throw new SettingsError(usage);
  return { name: values.name, command: positionals };
}

interface Parts {
  readonly child: Child;
  readonly endpoint: Endpoint;
  readonly uplink: Uplink;
}

/** Carries messages both ways until the client leaves, the server ends, or a signal comes. */
async function carry({ child, endpoint, uplink }: Parts): Promise<number> {
  void uplink.follow();
  const left = takeAll(uplink).then(() => 'left' as const);
  const stopped = stopSignal().then(() => 'left' as const);
  const first = await Promise.race([left, stopped, endOf(child, endpoint)]);
  if (first === 'left') {
    await uplink.close('The bridge was ended.');
    return 0;
  }
  const why = `The MCP server ended (${first.how}); start it again.`;
  warn(why);
  await uplink.close(why);
  return 1;
}

/** What a process that it left behind holds open is not waited for. */
const lastWordsMs = 1_000;

/** Resolves, with how, when the server has ended and what it said last was read. */
async function endOf(child: Child, endpoint: Endpoint): Promise<{ readonly how: string }> {
  const unreadable = endpoint.follow().then(
    () => child.ended,
    (error: Error) => error.message,
  );
  const how = await Promise.race([unreadable, child.ended]);
  await Promise.race([unreadable, delay(lastWordsMs, undefined, { ref: false })]);
  return { how };
}

/** Resolves when the client has gone, by either of its ends. */
async function takeAll(uplink: Uplink): Promise<void> {
  const deaf = new Promise<void>((resolve) => process.stdout.once('error', () => resolve()));
  await Promise.race([deaf, takeLines(uplink)]);
}

async function takeLines(uplink: Uplink): Promise<void> {
  for await (const line of linesOf(process.stdin)) await uplink.take(line);
}

async function writeLine(line: string): Promise<void> {
  if (process.stdout.destroyed || process.stdout.write(`${line}\n`)) return;
  await once(process.stdout, 'drain').catch(() => {});
}

/** Standard output is the protocol's: all else goes to standard error. */
function warn(text: string): void {
  process.stderr.write(`sallyport: ${text}\n`);
}

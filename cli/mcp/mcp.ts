import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseSettings } from '../../shared/base/settings.ts';
import { stopSignal } from '../support/stop-signal.ts';
import { ClientRelay } from './client-relay.ts';
import { LoopbackEndpoint } from './loopback-endpoint.ts';
import { linesOf } from './messages.ts';
import { type ServerProcess, startServer } from './server-process.ts';
import { connectSidecar, findBinding, sidecarSettings } from './sidecar.ts';

/**
 * `sallyport mcp`: connects an MCP client on standard input and output to a local MCP server, so that
 * each message of the client goes through the sidecar.
 */
export async function mcp(name: string, command: readonly string[]): Promise<number> {
  const readFile = (path: string) => fs.readFileSync(path, 'utf8');
  const sidecar = connectSidecar(parseSettings(sidecarSettings, { env: process.env, readFile }));
  const session = randomBytes(32).toString('base64url');
  try {
    const binding = await findBinding(sidecar, name);
    const server = await startServer(command);
    const endpoint = new LoopbackEndpoint({ server, session });
    const relay = new ClientRelay({ sidecar, url: binding.url, session, write: writeLine, warn });
    try {
      await endpoint.listen(binding);
      return await relayMessages({ server, endpoint, relay });
    } finally {
      await server.end();
      endpoint.close();
    }
  } finally {
    sidecar.close();
    process.stdin.destroy();
  }
}

interface Parts {
  readonly server: ServerProcess;
  readonly endpoint: LoopbackEndpoint;
  readonly relay: ClientRelay;
}

/** Relays messages in both directions until the client disconnects, the server ends, or a signal arrives. */
async function relayMessages({ server, endpoint, relay }: Parts): Promise<number> {
  void relay.followServerMessages();
  const disconnected = relayInput(relay).then(() => 'stopped' as const);
  const stopped = stopSignal().then(() => 'stopped' as const);
  const first = await Promise.race([disconnected, stopped, serverEnd(server, endpoint)]);
  if (first === 'stopped') {
    await relay.close('The bridge was stopped.');
    return 0;
  }
  const message = `The MCP server ended (${first.reason}); start it again.`;
  warn(message);
  await relay.close(message);
  return 1;
}

/**
 * Maximum wait for the end of the server's output. A process that the server started may keep the
 * output open after the server has ended.
 */
const lastOutputMs = 1_000;

/** Waits until the server has ended and its last output was read; resolves with the reason for the end. */
async function serverEnd(
  server: ServerProcess,
  endpoint: LoopbackEndpoint,
): Promise<{ readonly reason: string }> {
  const outputEnd = endpoint.relayOutput().then(
    () => server.ended,
    (error: Error) => error.message,
  );
  const reason = await Promise.race([outputEnd, server.ended]);
  await Promise.race([outputEnd, delay(lastOutputMs, undefined, { ref: false })]);
  return { reason };
}

/** Resolves when the client has closed standard input or output. */
async function relayInput(relay: ClientRelay): Promise<void> {
  const outputClosed = new Promise<void>((resolve) =>
    process.stdout.once('error', () => resolve()),
  );
  await Promise.race([outputClosed, relayLines(relay)]);
}

async function relayLines(relay: ClientRelay): Promise<void> {
  for await (const line of linesOf(process.stdin)) await relay.send(line);
}

async function writeLine(line: string): Promise<void> {
  if (process.stdout.destroyed || process.stdout.write(`${line}\n`)) return;
  await once(process.stdout, 'drain').catch(() => {});
}

/** Prints a warning to standard error, because standard output is for the protocol. */
function warn(text: string): void {
  process.stderr.write(`sallyport: ${text}\n`);
}

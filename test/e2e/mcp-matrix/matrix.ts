import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { goModule } from '../../support/programs/go.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { freePort, until } from '../../support/programs/processes.ts';
import { pythonWith } from '../../support/programs/python.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { Cleanup, temporaryFolder } from '../../support/sidecar/proxy.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';
import { type LineClient, startLineClient } from '../clients/line-client.ts';
import { approveRefund, refundPolicy } from '../clients/stage.ts';

interface Runtimes {
  readonly fastmcp: string;
  readonly python: string;
  readonly go: string;
}

const here = (name: string) => join(import.meta.dirname, name);
const clientFile = (name: string) => join(import.meta.dirname, '../clients', name);

async function findRuntimes(): Promise<Runtimes> {
  const [fastmcp, python, go] = await Promise.all([
    pythonWith(here('requirements.txt')),
    pythonWith(clientFile('requirements.txt')),
    goModule(join(import.meta.dirname, '../../support/go/mcp')),
  ]);
  return { fastmcp, python, go };
}

type Command = (runtimes: Runtimes) => readonly string[];

/** The servers. Each one is started with the arguments `http PORT FILE` or `stdio FILE`. */
const servers: Readonly<Record<string, Command>> = {
  'FastMCP of Python': ({ fastmcp }) => [fastmcp, here('fastmcp_server.py')],
  'TypeScript 1.x': () => [process.execPath, here('server-1.ts')],
  'TypeScript 2.x': () => [process.execPath, here('server-2.ts')],
  'Go SDK': ({ go }) => [go],
};
export const serverNames = Object.keys(servers);

const clients: Readonly<Record<string, Command>> = {
  Python: ({ python }) => [python, clientFile('mcp_client.py')],
  'TypeScript 1.x': () => [process.execPath, clientFile('mcp-1.ts')],
  'TypeScript 2.x': () => [process.execPath, clientFile('mcp-2.ts')],
  Go: ({ go }) => [go, 'client'],
};
export const clientNames = Object.keys(clients);

export const transports = ['Streamable HTTP', 'stdio through sallyport mcp'] as const;
export type Transport = (typeof transports)[number];

/**
 * A control plane, a sidecar, a process of each server over HTTP, and a binding for each server over stdio.
 */
export interface MatrixStage {
  client(name: string): LineClient;
  /** The target of a client: the URL of the server, or the command of the bridge. */
  target(server: string, transport: Transport): string;
  approve(amount: number): Promise<void>;
  /** Returns how often the refund of this amount was performed. */
  performed(amount: number): number;
  close(): Promise<void>;
}

const cli = resolve(import.meta.dirname, '../../../cli/main.ts');

export async function startMatrixStage(): Promise<MatrixStage> {
  const cleanup = new Cleanup();
  const runtimes = await findRuntimes();
  const folder = temporaryFolder(cleanup);
  const file = join(folder, 'performed');
  fs.writeFileSync(file, '');
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    // This hold is longer than any test waits, so each hold ends with the approval.
    sidecarEnv: { SALLYPORT_HOLD_MS: '60000' },
  });
  cleanup.add(() => separate.close());
  const ports = new Map<string, number>();
  for (const name of serverNames) {
    ports.set(`${name} http`, await startServer(commandOf(servers, name, runtimes), file, cleanup));
    ports.set(`${name} stdio`, await freePort());
  }
  await configure(separate, ports);
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    SALLYPORT_PROXY_PORT: new URL(separate.proxyUrl).port,
    SALLYPORT_PROXY_ADMIN_PORT: new URL(separate.adminUrl).port,
  };
  return {
    client: (name) =>
      startLineClient(
        [process.execPath, cli, 'run', '--', ...commandOf(clients, name, runtimes)],
        env,
      ),
    target: (name, transport) =>
      transport === 'Streamable HTTP'
        ? // Ends with a dot, because Go bypasses the proxy for other names of this machine.
          `http://localhost.:${ports.get(`${name} http`)}/mcp`
        : JSON.stringify({
            command: process.execPath,
            args: [
              cli,
              'mcp',
              '--name',
              bindingOf(name, 'stdio'),
              '--',
              ...commandOf(servers, name, runtimes),
              'stdio',
              file,
            ],
            env,
          }),
    approve: (amount) => approveRefund(separate, amount),
    performed: (amount) =>
      fs
        .readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== '' && Number(line) === amount).length,
    close: () => cleanup.run(),
  };
}

function commandOf(
  table: Readonly<Record<string, Command>>,
  name: string,
  runtimes: Runtimes,
): readonly string[] {
  const command = table[name];
  if (command === undefined) throw new Error(`nothing is named ${name}`);
  return command(runtimes);
}

async function startServer(
  [program = '', ...args]: readonly string[],
  file: string,
  cleanup: Cleanup,
): Promise<number> {
  const port = await freePort();
  const child = spawn(program, [...args, 'http', String(port), file], {
    env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let complaints = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  const exited = once(child, 'exit');
  cleanup.add(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await until(`${program} listens`, async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended:\n${complaints}`);
    return fetch(`http://127.0.0.1:${port}/mcp`, { method: 'DELETE' }).then(
      () => true,
      () => false,
    );
  });
  return port;
}

function bindingOf(name: string, how: 'http' | 'stdio'): string {
  return `${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}-${how}`;
}

async function configure({ api, proxyUrl }: Separate, ports: ReadonlyMap<string, number>) {
  const put = async (method: string, path: string, body: object) => {
    const answer = await api(method, path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
  };
  for (const name of serverNames) {
    for (const how of ['http', 'stdio'] as const) {
      const host = how === 'http' ? 'localhost' : '127.0.0.1';
      await put('PUT', `/v1/runtime/bindings/${bindingOf(name, how)}`, {
        protocol: 'mcp',
        host: `${host}:${ports.get(`${name} ${how}`)}`,
      });
    }
  }
  await put('POST', '/v1/policies', { name: 'Refunds', publish: true, rules_json: refundPolicy });
  await untilActive(api, proxyUrl);
}

async function untilActive(api: Separate['api'], proxyUrl: string): Promise<void> {
  await until(`the sidecar at ${proxyUrl} holds bindings and policy`, async () => {
    const { body } = await api('GET', '/v1/sidecars');
    const { sections, sidecars } = body as {
      sections: Record<string, number>;
      sidecars: { report?: { versions?: Record<string, number> } }[];
    };
    const held = sidecars[0]?.report?.versions ?? {};
    return Object.entries(sections).every(([name, version]) => held[name] === version);
  });
}

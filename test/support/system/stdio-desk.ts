import fs from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { freePort, until } from '../programs/processes.ts';
import { startFaultBench } from './fault-bench.ts';

export const root = join(import.meta.dirname, '../../..');
const allowed = ['echo', 'shifty', 'big', 'env', 'steps', 'wait', 'ask', 'crash'];
const policy = {
  id: 'crm',
  version: 1,
  rules: [
    {
      name: 'plain',
      decision: 'allow',
      reason: 'crm.plain',
      when: {
        all: [
          {
            path: 'tool.name',
            operator: 'in',
            value: [...allowed.map((name) => `mcp.crm.${name}`), 'mcp.crm/response'],
          },
        ],
      },
    },
    {
      name: 'money',
      decision: 'require_approval',
      reason: 'crm.money',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'mcp.crm.refund' }] },
    },
  ],
};

/** The token is in the environment of every bridge, and must not appear anywhere else. */
export const token = 'the-token-of-this-proxy';

/**
 * Starts a sidecar with the binding `crm` on a free port, and returns functions that start
 * `sallyport mcp` for it.
 */
export async function startStdioDesk() {
  const bench = await startFaultBench({ SALLYPORT_HOLD_MS: '20000' });
  const port = await freePort();
  const { api } = bench.separate;
  await api('PUT', '/v1/runtime/bindings/crm', { protocol: 'mcp', host: `127.0.0.1:${port}` });
  await api('PUT', '/v1/runtime/bindings/far', { protocol: 'mcp', host: 'mcp.example' });
  await api('POST', '/v1/policies', { name: 'crm', publish: true, rules_json: policy });
  const manifest = { name: 'mcp.crm.shifty', description: 'as approved', riskTier: 'low' };
  const ingested = await api('POST', '/v1/tools/ingest', { manifest });
  if (ingested.body.approval_status !== 'approved') throw new Error('the tool is not approved');
  await until('all of it is in force', async () => {
    const { body } = await bench.separate.api('GET', '/v1/sidecars');
    const { sections, sidecars } = body as {
      sections: Record<string, number>;
      sidecars: { report?: { versions?: Record<string, number> } }[];
    };
    const held = sidecars[0]?.report?.versions ?? {};
    return Object.entries(sections).every(([name, version]) => held[name] === version);
  });
  const clients: Client[] = [];

  let diaries = 0;
  function newDiary() {
    const path = join(bench.separate.dataDir, `diary-${++diaries}`);
    fs.writeFileSync(path, '');
    const read = () => fs.readFileSync(path, 'utf8');
    return { path, read, pid: () => Number(/started (\d+)/.exec(read())?.[1]) };
  }

  const environment = () => ({
    PATH: process.env.PATH ?? '',
    SALLYPORT_PROXY_PORT: new URL(bench.separate.proxyUrl).port,
    SALLYPORT_PROXY_TOKEN: token,
    PLAIN: 'for the server to read',
  });
  const bridgeArgs = (diary: { readonly path: string }, manners = '') => [
    '--name',
    'crm',
    '--',
    process.execPath,
    'test/support/sidecar/stdio-server.ts',
    diary.path,
    manners,
  ];

  /**
   * Connects an MCP client that starts the bridge, which starts the server, as a desktop program
   * would.
   */
  async function connected(options: { readonly manners?: string } = {}) {
    const diary = newDiary();
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: ['cli/main.ts', 'mcp', ...bridgeArgs(diary, options.manners)],
      cwd: root,
      env: environment(),
      stderr: 'pipe',
    });
    let stderr = '';
    transport.stderr?.on('data', (chunk) => {
      stderr += chunk;
    });
    const capabilities = { roots: {}, sampling: {}, elicitation: {} };
    const client = new Client({ name: 'desktop', version: '1' }, { capabilities });
    clients.push(client);
    await client.connect(transport as Parameters<Client['connect']>[0]);
    return { client, diary, transport, stderr: () => stderr };
  }
  const close = async () => {
    for (const client of clients) await client.close();
    await bench.close();
  };
  return { bench, port, newDiary, environment, bridgeArgs, connected, close };
}

type StdioDesk = Awaited<ReturnType<typeof startStdioDesk>>;
export type Diary = ReturnType<StdioDesk['newDiary']>;

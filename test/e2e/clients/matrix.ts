import { dirname, join } from 'node:path';
import { goProgram } from '../../support/programs/go.ts';
import { findProgram } from '../../support/programs/programs.ts';
import { pythonWith } from '../../support/programs/python.ts';
import type { LineClient } from './line-client.ts';

const file = (name: string) => join(import.meta.dirname, name);

/** The commands that run the clients. The clients are installed or built first if necessary. */
export interface Runtimes {
  readonly python: string;
  readonly go: string;
  readonly java: string;
}

export async function findRuntimes(): Promise<Runtimes> {
  const [python, go, javac] = await Promise.all([
    pythonWith(file('requirements.txt')),
    goProgram(file('client.go')),
    // A JDK is necessary, because the `java` of a runtime alone cannot run a source file.
    findProgram(['javac'], 'default-jdk-headless'),
    findProgram(['curl']),
  ]);
  return { python, go, java: join(dirname(javac), 'java') };
}

export interface ClientUnderTest {
  readonly name: string;
  readonly command: (runtimes: Runtimes) => readonly string[];
}

const node = (program: string) => () => [process.execPath, file(program)];
const python = (program: string) => (runtimes: Runtimes) => [runtimes.python, file(program)];

export const httpClients: readonly (ClientUnderTest & { readonly host: string })[] = [
  { name: 'fetch of Node', command: node('fetch.ts'), host: 'localhost' },
  { name: 'http and https of Node', command: node('node-https.ts'), host: 'localhost' },
  { name: 'undici', command: node('undici.ts'), host: 'localhost' },
  { name: 'axios', command: node('axios.ts'), host: 'localhost' },
  { name: 'curl', command: () => ['sh', file('curl.sh')], host: 'localhost' },
  { name: 'requests', command: python('requests_client.py'), host: 'localhost' },
  { name: 'httpx', command: python('httpx_client.py'), host: 'localhost' },
  { name: 'aiohttp', command: python('aiohttp_client.py'), host: 'localhost' },
  {
    name: 'HttpClient of Java',
    command: ({ java }) => [java, file('Client.java')],
    host: 'localhost',
  },
  // Go always bypasses the proxy for `localhost`, but not for `localhost.` with the trailing dot of the DNS
  // root.
  { name: 'net/http of Go', command: ({ go }) => [go], host: 'localhost.' },
];

export const mcpClients: readonly ClientUnderTest[] = [
  { name: '@modelcontextprotocol/sdk 1.x', command: node('mcp-1.ts') },
  { name: '@modelcontextprotocol/client 2.x', command: node('mcp-2.ts') },
  { name: 'mcp of Python', command: python('mcp_client.py') },
];

interface HttpAnswer {
  readonly status: number;
  readonly location: string;
  readonly body: Record<string, unknown>;
}

/** Sends GET without a body, or POST with a JSON body. */
export async function call(client: LineClient, url: string, body?: object): Promise<HttpAnswer> {
  const fields = body === undefined ? ['GET', url] : ['POST', url, JSON.stringify(body)];
  const [text = '', status, location = ''] = (await client.ask(...fields)).split('\t');
  return { status: Number(status), location, body: JSON.parse(text) as Record<string, unknown> };
}

/** Opens a session; returns the names of the tools. */
export async function connect(client: LineClient, url: string): Promise<unknown> {
  return JSON.parse(await client.ask('connect', url));
}

export async function refundTool(client: LineClient, amount: number): Promise<unknown> {
  return JSON.parse(await client.ask('call', 'refund', JSON.stringify({ amount })));
}

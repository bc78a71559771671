// A real MCP server over stdio, built with the official SDK. It has one tool for each feature that
// a test needs.
import fs from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import {
  CallToolRequestSchema,
  ListRootsResultSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

const [diary = '/dev/null', manners = ''] = process.argv.slice(2);
const note = (text: string) => fs.appendFileSync(diary, `${text}\n`);
note(`started ${process.pid}`);
if (manners === 'stubborn') process.on('SIGTERM', () => note('SIGTERM ignored'));
process.stdin.on('end', () => note('input ended'));

const server = new Server(
  { name: 'crm', version: '1' },
  { capabilities: { tools: {}, resources: {}, logging: {} } },
);
const inputSchema = { type: 'object' as const };
const names = ['echo', 'wipe', 'refund', 'shifty', 'big', 'env', 'steps', 'wait', 'ask', 'crash'];

server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: names.map((name) => ({ name, description: `does ${name}`, inputSchema })),
}));
server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
  note(`read ${uri}`);
  return { contents: [{ uri, text: 'content' }] };
});

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

server.setRequestHandler(
  CallToolRequestSchema,
  async ({ params }, { sendNotification, signal }) => {
    const { name, arguments: args = {}, _meta: meta } = params;
    note(`called ${name}`);
    switch (name) {
      case 'big':
        return text('x'.repeat(Number(args.bytes)));
      case 'env':
        return text(JSON.stringify(process.env));
      case 'steps':
        for (const progress of [1, 2, 3]) {
          const progressToken = meta?.progressToken ?? 0;
          const of = { progressToken, progress, total: 3 };
          await sendNotification({ method: 'notifications/progress', params: of });
        }
        await server.sendLoggingMessage({ level: 'info', data: 'all steps' });
        return text('done');
      case 'wait':
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        note('wait cancelled');
        return text('cancelled');
      case 'ask':
        return text(JSON.stringify(await askClient()));
      case 'crash':
        process.exit(7);
        break;
    }
    return text(JSON.stringify(args));
  },
);

/** Sends the client a request of each kind that a server may send. */
async function askClient() {
  const { roots } = await server.request({ method: 'roots/list' }, ListRootsResultSchema);
  const sampled = await server.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }],
    maxTokens: 5,
  });
  const elicited = await server.elicitInput({
    message: 'Sure?',
    requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } } },
  });
  return { roots, sampled: sampled.content, elicited };
}

await server.connect(new StdioServerTransport());
if (manners === 'stubborn') setInterval(() => {}, 1_000);

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { answerTools } from './tools.ts';

await answerTools(async (target) => {
  const client = new Client({ name: 'agent', version: '1.0.0' });
  const transport =
    target instanceof URL
      ? new StreamableHTTPClientTransport(target)
      : new StdioClientTransport(target);
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return client;
});

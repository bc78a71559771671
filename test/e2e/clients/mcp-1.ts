import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { answerTools } from './tools.ts';

await answerTools(async (url) => {
  const client = new Client({ name: 'agent', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return client;
});

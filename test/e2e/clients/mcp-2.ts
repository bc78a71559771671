import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { answerTools } from './tools.ts';

await answerTools(async (url) => {
  const info = { name: 'agent', version: '1.0.0' };
  const client = new Client(info, { versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(url));
  return client;
});

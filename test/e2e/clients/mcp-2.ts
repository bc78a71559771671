import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answerTools } from './tools.ts';

await answerTools(async (target) => {
  const info = { name: 'agent', version: '1.0.0' };
  const client = new Client(info, { versionNegotiation: { mode: 'auto' } });
  await client.connect(
    target instanceof URL
      ? new StreamableHTTPClientTransport(target)
      : new StdioClientTransport(target),
  );
  return client;
});

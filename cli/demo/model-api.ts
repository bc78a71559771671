import { createServer } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import { close, listen } from './payments-api.ts';

/** What stands in the demo for the agent's model provider: streams a few tokens as SSE. */
export async function startModelApi(
  tls: SecureContextOptions,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer(tls, (req, res) => {
    req.resume();
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const token of ['I', 'would', 'refund', 'it'])
      res.write(`data: ${JSON.stringify({ token })}\n\n`);
    res.end('data: [DONE]\n\n');
  });
  return { port: await listen(server), close: () => close(server) };
}

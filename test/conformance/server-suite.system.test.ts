import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type McpBench, startMcpBench } from '../support/system/mcp-bench.ts';
import { referenceServer } from './reference/server.ts';
import { failures, runSuite } from './suite.ts';

const secret = 'only-the-sidecar-knows-this-9f2c';

describe('the official conformance suite for servers', () => {
  let bench: McpBench;
  beforeAll(async () => {
    bench = await startMcpBench();
  });
  afterAll(() => bench?.close());

  it.each([
    ['sessions', '2025-11-25', 84],
    ['stateless', '2026-07-28', 151],
  ] as const)(
    'gives the same results through the sidecar as without a sidecar: %s, %s',
    async (generation, revision, checks) => {
      const suite = ['server', '--suite', 'all', '--spec-version', revision, '--url'];
      const bare = referenceServer(generation);
      const direct = await new Promise<number>((resolve) => {
        bare.listen(0, '127.0.0.1', () => resolve((bare.address() as { port: number }).port));
      });
      const url = await bench.serve(generation, referenceServer(generation, secret));
      const stored = await bench.api('POST', '/v1/credentials', {
        name: generation,
        secret,
        inject: { in: 'bearer' },
        bind: { tools: [`mcp.${generation}.**`, `mcp.${generation}/**`], hosts: [url.host] },
      });
      expect(stored.status).toBe(200);
      const [without, behind] = await Promise.all([
        runSuite([...suite, `http://127.0.0.1:${direct}/mcp`]),
        runSuite([...suite, url.href], bench.proxyEnv),
      ]);
      bare.closeAllConnections();
      bare.close();
      expect(behind).toEqual(without);
      expect(failures(without)).toEqual([]);
      expect(without.length).toBeGreaterThanOrEqual(checks);
    },
    180_000,
  );
});

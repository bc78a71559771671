import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failures, type Results, runSuite } from '../conformance/suite.ts';
import { type McpBench, startMcpBench } from '../support/system/mcp-bench.ts';

const reference = join(import.meta.dirname, '../conformance/reference');

/** Scenarios that need no authorization server, by revision. */
const scenarios = [
  ['initialize', '2025-11-25'],
  ['tools_call', '2025-11-25'],
  ['elicitation-sep1034-client-defaults', '2025-11-25'],
  ['sse-retry', '2025-11-25'],
  ['json-schema-2020-12-preservation', '2025-11-25'],
  ['tools_call', '2026-07-28'],
  ['request-metadata', '2026-07-28'],
  ['sep-2322-client-request-state', '2026-07-28'],
  ['http-standard-headers', '2026-07-28'],
  ['http-custom-headers', '2026-07-28'],
  ['http-invalid-tool-headers', '2026-07-28'],
  ['json-schema-ref-no-deref', '2026-07-28'],
  ['json-schema-2020-12-preservation', '2026-07-28'],
] as const;

describe('the official conformance suite for clients', () => {
  let bench: McpBench;
  beforeAll(async () => {
    bench = await startMcpBench();
  });
  afterAll(() => bench?.close());

  it('gives the same results for a client behind the sidecar as without a sidecar', async () => {
    const { proxyUrl, origin, ownerKey } = bench.separate;
    const env = { BENCH_PROXY: proxyUrl, BENCH_API: `${origin}/api`, BENCH_KEY: ownerKey };
    const run = async (script: string): Promise<Results> => {
      const found: string[] = [];
      for (const [scenario, revision] of scenarios) {
        const command = `${process.execPath} ${join(reference, script)}`;
        const args = ['client', '--command', command, '--scenario', scenario];
        const results = await runSuite([...args, '--spec-version', revision], env);
        found.push(...results.map((result) => `${revision} ${result}`));
      }
      return found;
    };
    const [without, behind] = await Promise.all([run('client.ts'), run('bound-client.ts')]);
    expect(behind).toEqual(without);
    expect(failures(without)).toEqual([]);
  });
});

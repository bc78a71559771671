import { afterAll, beforeAll, expect, it } from 'vitest';
import { surfaceHash } from '../../../shared/manifest/hash.ts';
import { parseManifest } from '../../../shared/manifest/normalise.ts';
import { driftVectors, isRegistrable } from '../../support/policy/drift-vectors.ts';
import { until } from '../../support/programs/processes.ts';
import { listing, rawMcpServer } from '../../support/sidecar/mcp-raw-server.ts';
import { type McpBench, startMcpBench } from '../../support/system/mcp-bench.ts';

/**
 * The fields that a server can show in its responses. The drift vectors about these fields are served by an
 * MCP server behind a live sidecar.
 */
const shownOnTheWire = new Set([
  'description',
  'title',
  'inputSchema',
  'outputSchema',
  'annotations',
]);

const vectors = driftVectors()
  .filter(({ before, after }) =>
    Object.keys({ ...before, ...after }).every((field) => shownOnTheWire.has(field)),
  )
  .filter(({ before }) => isRegistrable(before))
  .map((vector, index) => ({ ...vector, tool: `t${index}` }));

let bench: McpBench;
let url: URL;
const server = rawMcpServer();

async function listed(): Promise<readonly string[]> {
  const answer = await bench.fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
  });
  const { result } = (await answer.json()) as { result: { tools: readonly { name: string }[] } };
  return result.tools.map(({ name }) => name);
}

async function called(tool: string): Promise<string> {
  const answer = await bench.fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: tool, arguments: {} },
    }),
  });
  return answer.text();
}

const shown = (form: 'before' | 'after') =>
  vectors.map((vector) => ({ name: vector.tool, ...vector[form] }));

/**
 * This tool is registered last, and the server never lists it in its registered form. A sidecar
 * that withholds it has therefore received all registrations.
 */
const marker = { name: 'registered_last', description: 'as registered', inputSchema: {} };

beforeAll(async () => {
  bench = await startMcpBench();
  url = await bench.serve('golden', server.http);
  const changedMarker = { ...marker, description: 'as shown' };
  server.behave(listing(() => [...shown('before'), changedMarker]));
  const registered = vectors.map(({ tool, before }) => ({ name: tool, ...before }));
  for (const tool of [...registered, marker]) {
    const manifest = { ...tool, name: `mcp.golden.${tool.name}` };
    const { body } = await bench.api('POST', '/v1/tools/ingest', { manifest });
    expect(body).toMatchObject({ approval_status: 'approved' });
  }
}, 120_000);
afterAll(() => bench?.close());

it('a server with approved tools keeps every tool in the list', async () => {
  await until('the sidecar knows all', async () => !(await listed()).includes(marker.name));
  expect(await listed()).toHaveLength(vectors.length);
  expect(vectors.length).toBeGreaterThanOrEqual(75);
});

it('exactly the changed tools of a server are removed from the list and denied in calls', async () => {
  server.behave(listing(() => shown('after')));
  const hashOf = (fields: object) => surfaceHash(parseManifest({ name: 'x', ...fields }));
  const kept = new Set(await listed());
  for (const { name, tool, before, after, drifts } of vectors) {
    const isChanged = hashOf(before) !== hashOf(after);
    expect({ name, isChanged }).toEqual({ name, isChanged: drifts.length > 0 });
    expect({ name, isKept: kept.has(tool) }).toEqual({ name, isKept: !isChanged });
    const answer = await called(tool);
    if (isChanged) expect(answer).toContain('require_tool_reapproval');
    else expect(answer).not.toContain('require_tool_reapproval');
  }
});

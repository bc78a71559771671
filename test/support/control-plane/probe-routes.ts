import { z } from 'zod';
import { type Route, route } from '../../../control-plane/platform/http/route.ts';
import { type AnyOperation, operation } from '../../../shared/contract/base/operation.ts';

const shared = { tag: 'Probe', summary: 'Probe', errors: [] } as const;
const keyed = { ...shared, auth: 'bearer', permission: 'read' } as const;

const answer = { status: 200, description: 'What arrived.', schema: z.unknown() } as const;

/** Operations for tests of the HTTP layer. */
export const probe = {
  echo: operation({
    ...keyed,
    id: 'probeEcho',
    method: 'POST',
    path: '/v1/probe/echo',
    body: z.object({
      tool: z.string(),
      args: z.record(z.string(), z.unknown()).optional(),
      mode: z.enum(['enforce', 'strict']).optional(),
      list: z.array(z.object({ name: z.string() })).optional(),
    }),
    success: answer,
  }),
  search: operation({
    ...keyed,
    id: 'probeSearch',
    method: 'GET',
    path: '/v1/probe/search',
    query: z.object({
      limit: z.coerce.number().int().min(1).max(10).optional(),
      q: z.string().optional(),
    }),
    success: answer,
  }),
  one: operation({
    ...keyed,
    id: 'probeOne',
    method: 'GET',
    path: '/v1/probe/{id}',
    params: z.object({ id: z.string().max(20) }),
    success: answer,
  }),
  control: operation({
    ...keyed,
    id: 'probeControl',
    method: 'POST',
    path: '/v1/probe/control',
    budget: 'control',
    success: answer,
  }),
  form: operation({
    ...shared,
    id: 'probeForm',
    method: 'POST',
    path: '/v1/probe/form',
    auth: 'none',
    bodyType: 'json-or-form',
    body: z.object({ client_id: z.string() }),
    success: answer,
  }),
  open: operation({
    ...shared,
    id: 'probeOpen',
    method: 'POST',
    path: '/v1/probe/open',
    auth: 'none',
    bodyType: 'raw',
    bodyBytesMax: 100,
    budgetPerMinute: 3,
    success: answer,
  }),
  stream: operation({
    ...keyed,
    id: 'probeStream',
    method: 'GET',
    path: '/v1/probe/stream',
    success: { status: 200, description: 'Events.', contentType: 'text/event-stream' },
  }),
  bytes: operation({
    ...keyed,
    id: 'probeBytes',
    method: 'GET',
    path: '/v1/probe/bytes',
    success: { status: 200, description: 'A file.', contentType: 'application/zip' },
  }),
  sidecar: operation({
    ...shared,
    id: 'probeSidecar',
    method: 'GET',
    path: '/v1/probe/as-sidecar',
    auth: 'sidecar',
    success: answer,
  }),
  failing: operation({
    ...keyed,
    id: 'probeFailing',
    method: 'POST',
    path: '/v1/probe/failing',
    success: answer,
  }),
} satisfies Record<string, AnyOperation>;

/**
 * Returns routes for the probes. `fail` returns the error that the failing probe throws; `stream`
 * returns the items that the streaming probe sends.
 */
export function probeRoutes(behaviour: {
  readonly fail?: () => unknown;
  readonly stream?: (signal: AbortSignal) => AsyncIterable<string>;
}): readonly Route[] {
  return [
    route(probe.echo, async ({ body }, caller) => ({ body: { body, tenant: caller.tenantId } })),
    route(probe.search, async ({ query }) => ({ body: query })),
    route(probe.one, async ({ params }) => ({ body: params })),
    route(probe.control, async () => ({ body: {} })),
    route(probe.form, async ({ body }) => ({ body })),
    route(probe.open, async (_input, _caller, { rawBody }) => ({
      body: { raw: rawBody.toString() },
    })),
    route(probe.stream, async (_input, _caller, { signal }) => ({
      stream: behaviour.stream?.(signal) ?? noStream(),
    })),
    route(probe.bytes, async () => ({ bytes: 'PK', headers: { 'x-checksum-sha256': 'ab' } })),
    route(probe.sidecar, async (_input, { sidecarId, agentId, principal, tenantId }) => ({
      body: { sidecarId, agentId, principal, tenantId },
    })),
    route(probe.failing, async () => {
      throw behaviour.fail?.() ?? new Error('no failure given');
    }),
  ];
}

async function* noStream(): AsyncIterable<string> {}

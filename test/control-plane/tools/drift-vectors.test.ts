import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';
import { driftVectors, isRegistrable } from '../../support/policy/drift-vectors.ts';

const vectors = driftVectors().map((vector, index) => ({ ...vector, tool: `drift.n${index}` }));
const bothRegistrable = ({ before, after }: (typeof vectors)[number]) =>
  isRegistrable(before) && isRegistrable(after);
const registrable = vectors.filter(bothRegistrable);
const unusable = vectors.filter((vector) => !bothRegistrable(vector));
interface Drift {
  readonly class: string;
  readonly path: string;
  readonly material: boolean;
  readonly reason_code: string;
}
const shortly = (drift: readonly Drift[]) =>
  drift.map((one) => [one.class, one.path, one.material] as const);

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, 60_000);
afterAll(() => gateway?.close(), 60_000);

describe('drift vectors, over the API', () => {
  it.each(vectors)('$name', async ({ tool, before, after, drifts }) => {
    const { body } = await gateway.post('/v1/tools/diff', {
      before: { name: tool, ...before },
      after: { name: tool, ...after },
    });
    const told = body as { drift: readonly Drift[]; material: boolean } & Record<string, unknown>;
    expect(shortly(told.drift).sort()).toEqual([...drifts].sort());
    for (const one of told.drift) expect(one.reason_code).toBe(`tool.${one.class}`);
    expect(told.material).toBe(drifts.some(([, , material]) => material));
    expect(told.before_hash === told.after_hash).toBe(drifts.length === 0);
  });

  it.each(registrable)('$name, with the tool registered again', async (vector) => {
    const { tool, before, after, drifts } = vector;
    const first = await gateway.post('/v1/tools/ingest', { manifest: { name: tool, ...before } });
    const awaitsHuman = ['high', 'critical'].includes(String(before.riskTier));
    const standing = awaitsHuman ? 'pending_approval' : 'approved';
    expect(first).toMatchObject({ status: 200, body: { approval_status: standing } });
    const isMaterial = drifts.some(([, , material]) => material);
    const manifest = { name: tool, ...after };
    expect(await gateway.post('/v1/tools/ingest', { manifest })).toMatchObject({
      status: 200,
      body: { approval_status: isMaterial && !awaitsHuman ? 'reapproval_required' : standing },
    });
  });

  it.each(unusable)('$name: a malformed schema is refused', async (vector) => {
    const { tool, before, after } = vector;
    const manifest = { name: tool, ...(isRegistrable(before) ? after : before) };
    expect(await gateway.post('/v1/tools/ingest', { manifest })).toMatchObject({
      status: 400,
      body: { reason_code: 'args.schema_invalid' },
    });
  });

  it('include at least the required number of cases', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(110);
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import { diffTools, ingestTool } from '../../../shared/contract/tools.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

const ingest = (manifest: object, client = gateway.owner) =>
  client.call(ingestTool, { body: { manifest: manifest as never } });

async function stored(name: string, tenantId = 'default') {
  const where = { tenantId_name: { tenantId, name } };
  return gateway.services.db.tool.findUniqueOrThrow({ where });
}

async function decide(id: string | undefined, action: 'approve' | 'deny' | 'modify') {
  const approver = await gateway.as({ role: 'approver', principal: 'anna' });
  return approver.call(decideApproval, { params: { id: Number(id) }, body: { action } });
}

describe('ingesting a tool', () => {
  it('approves a tool’s first manifest at once if its risk is low, but opens an approval if its risk is critical', async () => {
    const low = await ingest({ name: 'low', riskTier: 'low' });
    expect(low).toMatchObject({ approval_status: 'approved', drift: [] });
    expect(low.approval_request_id).toBeUndefined();
    const high = await ingest({ name: 'high', riskTier: 'critical' });
    expect(high.approval_status).toBe('pending_approval');
    expect(high.approval_request_id).toMatch(/^\d+$/);
  });

  it('computes the same hash for manifests that differ only in the order of members', async () => {
    const one = await ingest({ name: 'order', description: 'd', oauthScopes: ['b', 'a'] });
    const two = await ingest({ oauthScopes: ['a', 'b'], description: 'd', name: 'order' });
    expect(two.manifest_hash).toBe(one.manifest_hash);
    expect(two.approval_status).toBe('approved');
  });

  it('opens an approval with the most severe reason if a tool changes from reading to writing', async () => {
    await ingest({ name: 'reader', sideEffectProfile: ['read'] });
    const drifted = await ingest({ name: 'reader', sideEffectProfile: ['read', 'delete'] });
    expect(drifted.approval_status).toBe('reapproval_required');
    expect(drifted.drift.map(({ reason_code }) => reason_code)).toContain(
      'tool.read_to_write_conversion',
    );
    expect(await stored('reader')).toMatchObject({ driftReason: 'tool.read_to_write_conversion' });
  });

  it('compares each version with the approved version, so that several small changes count as one drift', async () => {
    const { manifest_hash } = await ingest({ name: 'halves', description: 'one' });
    await ingest({ name: 'halves', description: 'two' });
    const third = await ingest({ name: 'halves', description: 'two', oauthScopes: ['all'] });
    expect(third.drift.map(({ path }) => path).sort()).toEqual(['/description', '/oauthScopes']);
    expect(await stored('halves')).toMatchObject({ approvedHash: manifest_hash });
  });

  it('reports a tool as renamed, not as new, if only its name changed', async () => {
    const shown = {
      description: 'Pays a refund out',
      inputSchema: { type: 'object', properties: { amount: { type: 'number' } } },
    };
    await ingest({ name: 'pay.refund', ...shown });
    expect((await ingest({ name: 'pay.payout', ...shown })).renamed_from).toBe('pay.refund');
    expect((await ingest({ name: 'pay.payout', ...shown })).renamed_from).toBeUndefined();
    const other = await ingest({ name: 'pay.other', ...shown, description: 'Something else' });
    expect(other.renamed_from).toBeUndefined();
  });

  it('approves a return to the approved version at once', async () => {
    await ingest({ name: 'back', description: 'one' });
    await ingest({ name: 'back', description: 'two' });
    expect((await ingest({ name: 'back', description: 'one' })).approval_status).toBe('approved');
  });

  it('opens only one approval for a version that is submitted repeatedly', async () => {
    await ingest({ name: 'often', description: 'one' });
    const asked = await Promise.all(
      Array.from({ length: 6 }, () => ingest({ name: 'often', description: 'two' })),
    );
    expect(new Set(asked.map(({ approval_request_id }) => approval_request_id)).size).toBe(1);
  });

  it.each([
    ['no name', {}],
    ['a name that is not a string', { name: 7 }],
    ['an unknown risk tier', { name: 'x', riskTier: 'extreme' }],
    ['a schema that is not an object', { name: 'x', inputSchema: 'any' }],
    ['an invalid schema', { name: 'x', inputSchema: { type: 'strin' } }],
    [
      'a schema with an external reference',
      { name: 'x', inputSchema: { $ref: 'https://x.test/s' } },
    ],
  ])('refuses a manifest with %s', async (_what, manifest) => {
    expect((await refusalOf(ingest(manifest))).code).toBe('args.schema_invalid');
  });

  it('keeps the tools of different tenants separate', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    await ingest({ name: 'shared', description: 'one' });
    expect(await ingest({ name: 'shared', description: 'two' }, stranger)).toMatchObject({
      approval_status: 'approved',
      drift: [],
    });
    expect((await stored('shared')).manifestHash).not.toBe(
      (await stored('shared', 'other')).manifestHash,
    );
  });
});

describe('deciding on a changed tool', () => {
  async function drift(name: string) {
    await ingest({ name, description: 'one' });
    return ingest({ name, description: 'two' });
  }

  it('approves the changed version, and is recorded in the ledger', async () => {
    const { manifest_hash, approval_request_id } = await drift('approved');
    const decided = await decide(approval_request_id, 'approve');
    expect(decided.status).toBe('approved');
    expect(await stored('approved')).toMatchObject({
      approvalStatus: 'approved',
      approvedHash: manifest_hash,
      driftReason: null,
    });
    const rows = await gateway.services.db.evidenceRow.findMany({
      where: { tenantId: 'default', chainId: 'tool:approved' },
      orderBy: { seq: 'asc' },
    });
    expect(rows.map(({ type }) => type)).toEqual([
      'tool.ingested',
      'tool.drifted',
      'approval.requested',
      'approval.decided',
      'tool.reapproved',
    ]);
  });

  it('approves only the displayed version, not a later one', async () => {
    const { manifest_hash, approval_request_id } = await drift('raced');
    await ingest({ name: 'raced', description: 'three, not seen by anybody' });
    await decide(approval_request_id, 'approve');
    expect(await stored('raced')).toMatchObject({
      approvalStatus: 'reapproval_required',
      approvedHash: manifest_hash,
    });
  });

  it('does not approve a denied version, even if the version is submitted again', async () => {
    const { approval_request_id } = await drift('denied');
    await decide(approval_request_id, 'deny');
    expect(await stored('denied')).toMatchObject({ approvalStatus: 'rejected' });
    const again = await ingest({ name: 'denied', description: 'two' });
    expect(again.approval_status).toBe('rejected');
  });

  it('is refused for the submitter, and with modified arguments', async () => {
    const { approval_request_id } = await drift('own');
    const body = { action: 'approve' } as const;
    const params = { id: Number(approval_request_id) };
    const own = await refusalOf(gateway.owner.call(decideApproval, { params, body }));
    expect(own.code).toBe('approval.self_decision');
    const approver = await gateway.as({ role: 'approver', principal: 'anna' });
    const modify = { action: 'modify', modified_args: {} } as const;
    const modified = await refusalOf(approver.call(decideApproval, { params, body: modify }));
    expect(modified.code).toBe('approval.transition_invalid');
  });
});

describe('comparing two tool manifests', () => {
  it('returns each difference and stores nothing', async () => {
    const before = { name: 'x', sideEffectProfile: ['read'] };
    const after = { name: 'x', sideEffectProfile: ['write'] };
    const count = await gateway.services.db.toolVersion.count();
    const diff = await gateway.owner.call(diffTools, { body: { before, after } });
    expect(diff.material).toBe(true);
    expect(diff.drift[0]).toMatchObject({ reason_code: 'tool.read_to_write_conversion' });
    expect(await gateway.services.db.toolVersion.count()).toBe(count);
  });

  it('returns no difference for equal manifests', async () => {
    const manifest = { name: 'x', description: 'same' };
    const diff = await gateway.owner.call(diffTools, {
      body: { before: manifest, after: manifest },
    });
    expect(diff).toMatchObject({ material: false, drift: [] });
    expect(diff.before_hash).toBe(diff.after_hash);
  });
});

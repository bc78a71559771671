import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createPolicy,
  deletePolicy,
  getPolicy,
  listPolicies,
  replayPolicy,
  updatePolicy,
} from '../../../shared/contract/policies/policies.ts';
import { sha256 } from '../../../shared/crypto/hash.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

let count = 0;
function definition(more: object = {}) {
  count += 1;
  return { id: `refunds-${count}`, version: 1, rules: [rule('allow', 'pay')], ...more };
}

async function draft(rules_json: object | string = definition()) {
  return gateway.owner.call(createPolicy, {
    body: { name: 'Refunds', rules_json: rules_json as string },
  });
}

async function publish(id: number) {
  return gateway.owner.call(updatePolicy, { params: { id }, body: { lifecycle: 'published' } });
}

async function get(id: number) {
  return gateway.owner.call(getPolicy, { params: { id } });
}

async function eventTypes(policyId: number): Promise<string[]> {
  const rows = await gateway.services.db.evidenceRow.findMany({
    where: { tenantId: 'default', chainId: `policy:${policyId}` },
    orderBy: { seq: 'asc' },
  });
  return rows.map((row) => row.type);
}

describe('creating a policy', () => {
  it('stores a draft with the hash of the submitted definition', async () => {
    const rules_json = definition({ description: 'small ones' });
    const stored = await draft(rules_json);
    expect(stored).toMatchObject({
      lifecycle: 'draft',
      version: 1,
      created_by: 'owner',
      rules_json,
    });
    expect(stored.policy_hash).toBe(sha256(canonicalJson(rules_json)));
    expect(await eventTypes(stored.id)).toEqual(['policy.created']);
  });

  it('accepts the definition as JSON text', async () => {
    const rules_json = definition();
    const stored = await draft(JSON.stringify(rules_json));
    expect(stored.policy_hash).toBe(sha256(canonicalJson(rules_json)));
  });

  it.each([
    [
      'an unknown operator',
      { rules: [rule('allow', 'x', { when: { all: [{ path: 'a', operator: 'eq', value: 1 }] } })] },
    ],
    ['a bare array of conditions', { rules: [rule('allow', 'x', { when: [] as never })] }],
    ['neither all nor any', { rules: [rule('allow', 'x', { when: {} })] }],
    ['an unknown decision', { rules: [rule('permit')] }],
    ['no rules', { rules: undefined }],
  ])('refuses %s and stores nothing', async (_what, more) => {
    const before = await gateway.services.db.policy.count();
    const error = await refusalOf(draft(definition(more)));
    expect(error.code).toBe('policy.invalid');
    expect(await gateway.services.db.policy.count()).toBe(before);
  });

  it('is refused with an error that states the path and the allowed values of an invalid field', async () => {
    const when = { all: [{ path: 'args.amount', operator: 'eq', value: 1 }] };
    const { message } = await refusalOf(
      draft(definition({ rules: [rule('allow', 'x', { when })] })),
    );
    expect(message).toContain('rules[0].when.all[0].operator');
    expect(message).toContain('==, !=');
  });

  it('is refused if a key without the publish permission requests publish; nothing is stored', async () => {
    const developer = await gateway.as({ role: 'developer' });
    const before = await gateway.services.db.policy.count();
    const body = { name: 'Refunds', rules_json: definition(), publish: true };
    const error = await refusalOf(developer.call(createPolicy, { body }));
    expect(error.code).toBe('auth.insufficient_permission');
    expect(await gateway.services.db.policy.count()).toBe(before);
  });

  it('is refused above the plan’s limit on policies', async () => {
    const { db } = gateway.services;
    await db.tenant.create({ data: { id: 'small', name: 'small', plan: 'free' } });
    const owner = await gateway.as({ tenantId: 'small' });
    const create = () =>
      owner.call(createPolicy, { body: { name: 'p', rules_json: definition() } });
    for (let n = 0; n < 10; n++) await create();
    const error = await refusalOf(create());
    expect(error.code).toBe('plan.cap_reached');
    expect(error.details).toMatchObject({ status: 402, feature: 'policies', min_tier: 'team' });
  });

  it('is refused above the plan’s limit on policies, even for concurrent requests', async () => {
    const { db } = gateway.services;
    await db.tenant.create({ data: { id: 'busy', name: 'busy', plan: 'free' } });
    const owner = await gateway.as({ tenantId: 'busy' });
    const tries = Array.from({ length: 16 }, () =>
      owner.call(createPolicy, { body: { name: 'p', rules_json: definition() } }),
    );
    await Promise.allSettled(tries);
    expect(await db.policy.count({ where: { tenantId: 'busy' } })).toBe(10);
  });
});

describe('the policy API', () => {
  it('increments the version with every change to a draft, and changes the hash if the rules change', async () => {
    const first = await draft();
    const rules_json = { ...first.rules_json, description: 'other' };
    const body = { rules_json };
    const second = await gateway.owner.call(updatePolicy, { params: { id: first.id }, body });
    expect(second.version).toBe(2);
    expect(second.policy_hash).not.toBe(first.policy_hash);
    const named = await gateway.owner.call(updatePolicy, {
      params: { id: first.id },
      body: { name: 'New name' },
    });
    expect(named).toMatchObject({ version: 3, name: 'New name', policy_hash: second.policy_hash });
  });

  it('publishes a draft without a new version number, and archives the previously published version', async () => {
    const rules_json = definition();
    const former = await draft(rules_json);
    await publish(former.id);
    const next = await draft({ ...rules_json, description: 'next' });
    const published = await publish(next.id);
    expect(published).toMatchObject({ lifecycle: 'published', version: 1, published_by: 'owner' });
    expect(await get(former.id)).toMatchObject({ lifecycle: 'archived' });
    expect(await eventTypes(former.id)).toEqual([
      'policy.created',
      'policy.published',
      'policy.archived',
    ]);
  });

  it('keeps one published version if two drafts of a definition are published concurrently', async () => {
    const rules_json = definition();
    const drafts = await Promise.all([1, 2, 3, 4].map((n) => draft({ ...rules_json, version: n })));
    await Promise.all(drafts.map(({ id }) => publish(id)));
    const stored = await gateway.services.db.policy.findMany({
      where: { tenantId: 'default', definitionId: rules_json.id },
    });
    expect(stored.map((row) => row.lifecycle).sort()).toEqual([
      'archived',
      'archived',
      'archived',
      'published',
    ]);
  });

  it.each(['name', 'rules_json', 'lifecycle'] as const)(
    'refuses to change the %s of a published policy',
    async (field) => {
      const { id } = await draft();
      await publish(id);
      const body = { [field]: { name: 'x', rules_json: definition(), lifecycle: 'draft' }[field] };
      const error = await refusalOf(gateway.owner.call(updatePolicy, { params: { id }, body }));
      expect(error.code).toBe('policy.lifecycle_invalid');
    },
  );

  it('on a delete request, deletes a draft, archives a published policy, and keeps an archived policy', async () => {
    const one = await draft();
    const remove = (id: number) => gateway.owner.call(deletePolicy, { params: { id } });
    expect(await remove(one.id)).toEqual({ id: one.id, outcome: 'deleted' });
    expect((await refusalOf(get(one.id))).code).toBe('policy.not_found');
    const two = await draft();
    await publish(two.id);
    expect(await remove(two.id)).toEqual({ id: two.id, outcome: 'archived' });
    expect((await refusalOf(remove(two.id))).code).toBe('policy.lifecycle_invalid');
    expect(await get(two.id)).toMatchObject({ lifecycle: 'archived' });
  });

  it('requires the publish permission to archive a published policy', async () => {
    const { id } = await draft();
    await publish(id);
    const developer = await gateway.as({ role: 'developer' });
    const error = await refusalOf(developer.call(deletePolicy, { params: { id } }));
    expect(error.code).toBe('auth.insufficient_permission');
    expect(await get(id)).toMatchObject({ lifecycle: 'published' });
  });

  it('updates the section for sidecars when a policy is published, but not when a draft is stored', async () => {
    const version = async () => {
      const where = { tenantId_name: { tenantId: 'default', name: 'policies' } };
      return (await gateway.services.db.syncSection.findUnique({ where }))?.version ?? 0n;
    };
    const { id } = await draft();
    const before = await version();
    await gateway.owner.call(updatePolicy, { params: { id }, body: { name: 'n' } });
    expect(await version()).toBe(before);
    await publish(id);
    expect(await version()).toBeGreaterThan(before);
  });
});

describe('another tenant', () => {
  it('cannot read, change or remove a policy', async () => {
    const { id } = await draft();
    const stranger = await gateway.as({ tenantId: 'other' });
    const calls = [
      () => stranger.call(getPolicy, { params: { id } }),
      () => stranger.call(updatePolicy, { params: { id }, body: { name: 'mine' } }),
      () => stranger.call(deletePolicy, { params: { id } }),
    ];
    for (const call of calls) expect((await refusalOf(call())).code).toBe('policy.not_found');
    expect(await stranger.call(listPolicies)).toEqual({ policies: [] });
    expect(await get(id)).toMatchObject({ name: 'Refunds' });
  });
});

describe('replaying a policy', () => {
  const context = { tool: { name: 'pay' }, args: { amount: 20 } };

  it('returns the result of every condition, stores nothing, and reports whether the expectation was met', async () => {
    const before = await gateway.services.db.evidenceRow.count();
    const policy = definition();
    const expected = { decision: 'allow', reason_code: 'test.allow' };
    const replay = await gateway.owner.call(replayPolicy, { body: { policy, context, expected } });
    expect(replay.verdict).toMatchObject({ decision: 'allow', reason_code: 'test.allow' });
    expect(replay.verdict.evidence[0]?.condition_results[0]).toMatchObject({ result: true });
    expect(replay.conformance?.passed).toBe(true);
    expect(replay.policy_hash).toBe(sha256(canonicalJson(policy)));
    expect(await gateway.services.db.evidenceRow.count()).toBe(before);
  });

  it('returns the actual result if the expectation was not met', async () => {
    const body = { policy: definition(), context, expected: { decision: 'deny' } };
    const { conformance } = await gateway.owner.call(replayPolicy, { body });
    expect(conformance).toMatchObject({ passed: false, actual: { decision: 'allow' } });
  });

  it('does not report on an expectation if none is given', async () => {
    const body = { policy: definition(), context };
    expect((await gateway.owner.call(replayPolicy, { body })).conformance).toBeUndefined();
  });

  it('refuses an invalid policy', async () => {
    const error = await refusalOf(
      gateway.owner.call(replayPolicy, { body: { policy: { id: 'x' }, context } }),
    );
    expect(error.code).toBe('policy.invalid');
  });
});

describe('a draft that changed since it was read', () => {
  const changed = { status: 409, reason: 'policy.changed' };

  async function put(id: number, body: object, ifMatch?: string) {
    const answer = await gateway.api.send('PUT', `/api/v1/policies/${id}`, {
      key: await gateway.api.key(),
      body,
      ...(ifMatch === undefined ? {} : { headers: { 'if-match': ifMatch } }),
    });
    return { status: answer.status, reason: answer.body?.reason_code ?? '' };
  }

  it('is neither published nor changed by a request with the earlier entity tag', async () => {
    const { id, policy_hash: read } = await draft();
    const edit = { rules_json: definition() };
    expect((await put(id, { ...edit, expected_policy_hash: read })).status).toBe(200);
    const named = { expected_policy_hash: read };
    expect(await put(id, { lifecycle: 'published', ...named })).toEqual(changed);
    expect(await put(id, { rules_json: definition(), ...named })).toEqual(changed);
    expect(await put(id, { name: 'other', ...named })).toEqual(changed);
    const now = await get(id);
    expect(now).toMatchObject({ lifecycle: 'draft', version: 2, name: 'Refunds' });
    const present = { expected_policy_hash: now.policy_hash };
    expect((await put(id, { lifecycle: 'published', ...present })).status).toBe(200);
  });

  it('has its hash as entity tag, and only a matching tag permits a change', async () => {
    const { id, policy_hash: read } = await draft();
    const key = await gateway.api.key();
    const { headers } = await gateway.api.send('GET', `/api/v1/policies/${id}`, { key });
    expect(headers.get('etag')).toBe(`"${read}"`);
    const other = `"sha256:${'0'.repeat(64)}"`;
    const publishing = { lifecycle: 'published' };
    for (const tag of [other, `W/"${read}"`, read, '']) {
      expect(await put(id, publishing, tag)).toEqual(changed);
    }
    expect(await put(id, publishing, `${other}, "${read}"`)).toEqual({ status: 200, reason: '' });
  });

  it('is changed by only one of two concurrent edits of the same version', async () => {
    const { id, policy_hash: read } = await draft();
    const edits = [1, 2, 3].map(() =>
      put(id, { rules_json: definition(), expected_policy_hash: read }),
    );
    const statuses = (await Promise.all(edits)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 409, 409]);
  });
});

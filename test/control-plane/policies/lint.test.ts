import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import {
  createPolicy,
  updatePolicy,
  versionPolicy,
} from '../../../shared/contract/policies/policies.ts';
import {
  lintPolicySet,
  lintStoredPolicies,
} from '../../../shared/contract/policies/policy-lint.ts';
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
const fresh = () => {
  count += 1;
  return `p-${count}`;
};

function policy(...rules: readonly JsonObject[]): JsonObject {
  return { id: fresh(), version: 1, rules };
}

function limit(decision: string, tool: string, operator: string, value: number): JsonObject {
  return rule(decision, tool, {
    when: {
      all: [
        { path: 'tool.name', operator: '==', value: tool },
        { path: 'args.amount', operator, value },
      ],
    },
  });
}

const store = (rules_json: JsonObject, publish = false) =>
  gateway.owner.call(createPolicy, { body: { name: 'p', rules_json, publish } });
const lint = (policies: readonly JsonObject[], with_published = false) =>
  gateway.owner.call(lintPolicySet, { body: { policies: [...policies], with_published } });

describe('linting candidate policies', () => {
  it('returns kind, severity, policy, rule, path, message and fix for each finding, with an example', async () => {
    const both = policy(limit('allow', 'pay', '<=', 100), limit('deny', 'pay', '>', 50));
    const { findings, counts } = await lint([both]);
    expect(findings).toEqual([
      {
        kind: 'contradiction',
        severity: 'warning',
        policy: both.id,
        rule: `${both.id}/allow pay`,
        path: 'rules[0]',
        message: expect.stringContaining('the denial wins'),
        fix: expect.stringContaining('exclude each other'),
        other: `${both.id}/deny pay`,
        example: expect.objectContaining({ tool: { name: 'pay' } }),
      },
    ]);
    expect(counts).toEqual({ error: 0, warning: 1, info: 0 });
  });

  it('returns no finding for correct policies, and stores nothing', async () => {
    const before = await gateway.services.db.policy.count();
    const text = JSON.stringify(policy(limit('allow', 'pay', '<=', 50)));
    const report = await gateway.owner.call(lintPolicySet, { body: { policies: [text] } });
    expect(report).toEqual({ findings: [], counts: { error: 0, warning: 0, info: 0 } });
    expect(await gateway.services.db.policy.count()).toBe(before);
  });

  it('on request, compares a candidate with the published policies, except for the policy that it replaces', async () => {
    const published = policy(limit('deny', 'wire', '>', 50));
    await store(published, true);
    const beside = policy(limit('allow', 'wire', '<=', 100));
    expect((await lint([beside])).findings).toEqual([]);
    expect((await lint([beside], true)).findings.map(({ kind }) => kind)).toEqual([
      'contradiction',
    ]);
    expect((await lint([{ ...beside, id: published.id ?? '' }], true)).findings).toEqual([]);
  });

  it('warns of a numeric limit that can be bypassed with a text value, and gives an example of such a value', async () => {
    const open = policy(rule('allow', 'pay'), limit('deny', 'pay', '>', 50));
    const { findings } = await lint([open]);
    const slip = findings.find(({ kind }) => kind === 'number_slips_past');
    expect(slip).toMatchObject({ severity: 'warning', path: 'rules[1].when.all[1]' });
    expect(slip?.example).toMatchObject({ args: { amount: '1e3x' } });
  });

  it('refuses an invalid policy', async () => {
    const error = await refusalOf(lint([{ id: 'x' }]));
    expect(error.code).toBe('policy.invalid');
  });

  it.each([
    ['no policies', { policies: [] }],
    ['a policy that is a number', { policies: [5] }],
    ['more policies than the limit', { policies: Array.from({ length: 1001 }, () => '{}') }],
  ])('refuses %s', async (_what, body) => {
    const answer = await gateway.post('/v1/policies/lint', body);
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });

  it('yields to other requests while it lints hundreds of policies', async () => {
    const many = Array.from({ length: 500 }, (_, index) =>
      policy(
        ...Array.from({ length: 20 }, (_unused, at) => ({
          ...limit(at % 2 ? 'allow' : 'deny', `t${index % 100}.x`, '>', at),
          name: `r${at}`,
        })),
      ),
    );
    let isDone = false;
    const linted = lint(many).then((report) => {
      isDone = true;
      return report;
    });
    let served = 0;
    while (!isDone) {
      await gateway.api.send('GET', '/api/v1/policies/lint');
      served += 1;
    }
    const { findings } = await linted;
    expect(findings.at(-1)?.kind).toBe('not_compared');
    expect(findings.length).toBeLessThanOrEqual(2001);
    expect(served).toBeGreaterThan(3);
  });
});

describe('linting stored policies', () => {
  it('uses drafts instead of the published policies that the drafts would replace', async () => {
    const owner = await gateway.as({ tenantId: 'other' });
    const make = (rules_json: JsonObject, publish: boolean) =>
      owner.call(createPolicy, { body: { name: 'p', rules_json, publish } });
    const bad = policy(limit('allow', 'pay', '<=', 100), limit('deny', 'pay', '>', 50));
    await make(bad, true);
    const kinds = async (lifecycle?: 'draft' | 'published' | 'archived') => {
      const query = lifecycle === undefined ? {} : { lifecycle };
      const { findings } = await owner.call(lintStoredPolicies, { query });
      return findings.map(({ kind }) => kind);
    };
    expect(await kinds()).toEqual(['contradiction']);
    await make({ ...bad, rules: [limit('allow', 'pay', '<=', 50)] }, false);
    expect(await kinds()).toEqual([]);
    expect(await kinds('published')).toEqual(['contradiction']);
    expect(await kinds('draft')).toEqual([]);
    expect(await kinds('archived')).toEqual([]);
  });

  it('refuses an unknown lifecycle', async () => {
    const key = await gateway.api.key();
    const answer = await gateway.api.send('GET', '/api/v1/policies/lint?lifecycle=old', { key });
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
  });
});

describe('creating a version of a policy', () => {
  const version = (id: number) => gateway.owner.call(versionPolicy, { params: { id } });

  it('creates an editable draft of the published version, with the next version number', async () => {
    const definition = policy(rule('allow', 'pay'));
    const source = await store(definition, true);
    const draft = await version(source.id);
    expect(draft).toMatchObject({
      lifecycle: 'draft',
      version: 2,
      cloned_from: source.id,
      policy_hash: source.policy_hash,
      rules_json: definition,
    });
    expect(await version(source.id)).toMatchObject({ version: 3 });
    const body = { rules_json: { ...definition, version: 2 }, lifecycle: 'published' as const };
    await gateway.owner.call(updatePolicy, { params: { id: draft.id }, body });
    const restored = await version(source.id);
    expect(restored).toMatchObject({
      lifecycle: 'draft',
      cloned_from: source.id,
      rules_json: definition,
    });
  });

  it('returns 201 over HTTP, and is recorded in the ledger', async () => {
    const source = await store(policy(rule('allow', 'pay')), true);
    const answer = await gateway.post(`/v1/policies/${source.id}/versions`, undefined);
    expect(answer.status).toBe(201);
    const where = { tenantId: 'default', chainId: `policy:${String(answer.body?.id)}` };
    const rows = await gateway.services.db.evidenceRow.findMany({ where });
    expect(rows.map(({ type }) => type)).toEqual(['policy.created']);
  });

  it('gives every version a unique number, even for concurrent requests', async () => {
    const source = await store(policy(rule('allow', 'pay')), true);
    const made = await Promise.all(Array.from({ length: 6 }, () => version(source.id)));
    expect(made.map((row) => row.version).sort()).toEqual([2, 3, 4, 5, 6, 7]);
  });

  it('is refused for a draft, because a draft can be edited directly', async () => {
    const { id } = await store(policy(rule('allow', 'pay')));
    const error = await refusalOf(version(id));
    expect(error.code).toBe('policy.lifecycle_invalid');
    expect(error.message).toContain(`PUT /v1/policies/${id}`);
  });

  it('is refused for an unknown policy', async () => {
    expect((await refusalOf(version(999_999))).code).toBe('policy.not_found');
  });

  it('is refused above the limit of the plan', async () => {
    const { db } = gateway.services;
    await db.tenant.create({ data: { id: 'small', name: 'small', plan: 'free' } });
    const owner = await gateway.as({ tenantId: 'small' });
    const body = { name: 'p', rules_json: policy(rule('allow', 'pay')), publish: true };
    const { id } = await owner.call(createPolicy, { body });
    for (let n = 1; n < 10; n++) await owner.call(versionPolicy, { params: { id } });
    const error = await refusalOf(owner.call(versionPolicy, { params: { id } }));
    expect(error.code).toBe('plan.cap_reached');
  });
});

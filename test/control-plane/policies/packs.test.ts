import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadPacks } from '../../../control-plane/policies/load-packs.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { updatePolicy } from '../../../shared/contract/policies/policies.ts';
import {
  installPolicyPack,
  listPolicyPacks,
} from '../../../shared/contract/policies/policy-packs.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { compilePolicies } from '../../../shared/policy/engine/compile.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import { lintPolicies } from '../../../shared/policy/lint/lint.ts';
import { parseResource } from '../../../shared/vocabulary/resource.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

interface PackCase {
  readonly name: string;
  readonly action?: {
    readonly tool: string;
    readonly resource: string;
    readonly args?: JsonObject;
  };
  readonly context?: PolicyContext;
  readonly expect: {
    readonly decision: string;
    readonly reason_code: string;
    readonly matched_rules?: readonly string[];
  };
}

const folder = resolve(import.meta.dirname, '../../../control-plane/policies/packs');
const packs = await loadPacks();
const names = packs.map(({ pack }) => pack);

function casesOf(pack: string): readonly PackCase[] {
  return readdirSync(join(folder, pack))
    .filter((file) => file.endsWith('.cases.yaml'))
    .flatMap((file) => parse(readFileSync(join(folder, pack, file), 'utf8')).cases as PackCase[]);
}

function contextOf({ action, context }: PackCase): PolicyContext {
  const base = { agent: { id: '1' }, user: { id: 'u-1' }, environment: 'prod', args: {} };
  if (action === undefined) return { ...base, ...context };
  const { type, id } = parseResource(action.resource);
  const resource = type === undefined ? { id } : { id, type };
  return { ...base, tool: { name: action.tool }, args: action.args ?? {}, resource };
}

function compiled(pack: string) {
  const policies = packs.find((one) => one.pack === pack)?.policies ?? [];
  return compilePolicies(policies.map((policy, index) => ({ id: index + 1, ...policy })));
}

describe('the policy packs', () => {
  it('are at least five, each with cases for denied actions and for actions that require approval', () => {
    expect(names.length).toBeGreaterThanOrEqual(5);
    for (const pack of names) {
      const decisions = new Set(casesOf(pack).map(({ expect: { decision } }) => decision));
      expect([...decisions]).toEqual(expect.arrayContaining(['deny', 'require_approval']));
    }
  });

  it.each(names)('include the pack %s, which the README lists', (pack) => {
    const readme = readFileSync(join(folder, 'README.md'), 'utf8');
    expect(readme).toMatch(new RegExp(`^\\| \`${pack}\` \\| .{20,} \\|$`, 'm'));
  });

  it.each(names)('include the pack %s, which has a case for each of its rules', (pack) => {
    const set = compiled(pack);
    const shown = new Set(
      casesOf(pack).flatMap((one) => set.evaluate(contextOf(one)).matchedRules),
    );
    const policies = packs.find((one) => one.pack === pack)?.policies ?? [];
    for (const { definition } of policies) {
      for (const rule of definition.rules) expect(shown).toContain(`${definition.id}/${rule.name}`);
    }
  });

  it.each(names)('include the pack %s, which has no lint errors', (pack) => {
    const policies = packs.find((one) => one.pack === pack)?.policies ?? [];
    const findings = lintPolicies(policies.map(({ definition }) => definition));
    expect(findings.filter(({ severity }) => severity !== 'info')).toEqual([]);
  });

  it('do not contradict each other', () => {
    const all = packs.flatMap(({ policies }) => policies.map(({ definition }) => definition));
    expect(lintPolicies(all).filter(({ severity }) => severity !== 'info')).toEqual([]);
  });

  it.each(names.flatMap((pack) => casesOf(pack).map((one) => ({ pack, one, title: one.name }))))(
    '$pack: $title',
    ({ pack, one }) => {
      const outcome = compiled(pack).evaluate(contextOf(one));
      expect({ decision: outcome.decision, reason_code: outcome.reasonCode }).toMatchObject({
        decision: one.expect.decision,
        reason_code: one.expect.reason_code,
      });
      if (one.expect.matched_rules) expect(outcome.matchedRules).toEqual(one.expect.matched_rules);
    },
  );
});

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

const install = (body: object, client = gateway.owner) =>
  client.call(installPolicyPack, { body: body as { pack: string } });
const post = (body: object) => gateway.post('/v1/policies/install-pack', body);

/** For each pack, a typical call and the decision on it. */
const happy = [
  ['read-only', { tool: 'crm.get_customer', resource: 'customer:1' }, 'allow', 'read_only.read'],
  [
    'payments',
    { tool: 'payments.refund', resource: 'payment:pay_1', args: { amount: 20, currency: 'EUR' } },
    'allow',
    'refund.small_in_scope',
  ],
  [
    'data-export',
    { tool: 'files.share', resource: 'file:1', args: { visibility: 'team' } },
    'allow',
    'share.team',
  ],
  [
    'code-repositories',
    { tool: 'repo.push', resource: 'repo:shop', args: { branch: 'agent/x', force: false } },
    'allow',
    'code.own_branch',
  ],
  [
    'production-change',
    { tool: 'deploy.rollback', resource: 'service:shop' },
    'require_approval',
    'change.rollback_needs_approval',
  ],
  ['high-risk-tools', { tool: 'crm.get_customer', resource: 'c:1' }, 'deny', 'policy.no_match'],
] as const;

describe('installing a policy pack', () => {
  it('is tested for every pack', () => {
    expect(happy.map(([pack]) => pack).sort()).toEqual(names);
  });

  it.each(happy)(
    'makes the pack %s effective after its policies are published',
    async (pack, action, decision, reason) => {
      const tenantId = `pack-${pack}`;
      await gateway.services.db.tenant.create({ data: { id: tenantId, name: tenantId } });
      const owner = await gateway.as({ tenantId });
      await owner.call(ingestTool, {
        body: { manifest: { name: 'crm.get_customer', riskTier: 'low' } as never },
      });
      const drafts = await install({ pack }, owner);
      expect(drafts.policies.map(({ policy }) => policy.lifecycle)).not.toContain('published');
      const published = await install({ pack, publish: true }, owner);
      expect(published.policies.map(({ outcome }) => outcome)).not.toContain('created');
      const body = { agent_id: '1', user_id: 'u', ...action };
      const verdict = await owner.call(preflight, { body });
      expect(verdict).toMatchObject({ decision, reason_code: reason });
    },
  );

  it('is supported by an operation that lists the available packs', async () => {
    const listed = await gateway.owner.call(listPolicyPacks);
    expect(listed.packs.map(({ pack }) => pack)).toEqual(names);
  });

  it('returns 201 first and 200 if nothing changed, and stores nothing twice', async () => {
    const first = await post({ pack: 'payments', publish: true });
    expect(first.status).toBe(201);
    const count = await gateway.services.db.policy.count();
    const events = await gateway.services.db.evidenceRow.count();
    const second = await post({ pack: 'payments', publish: true });
    expect(second.status).toBe(200);
    expect(second.body).toMatchObject({ policies: [{ outcome: 'unchanged' }] });
    expect(await gateway.services.db.policy.count()).toBe(count);
    expect(await gateway.services.db.evidenceRow.count()).toBe(events);
  });

  it('stores each policy once for concurrent requests', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => post({ pack: 'code-repositories', publish: true })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(7).fill(200), 201]);
    const where = { tenantId: 'default', definitionId: 'pack.code-repositories' };
    expect(await gateway.services.db.policy.count({ where })).toBe(1);
  });

  it('creates a draft if an operator changed the policy, and the changed policy remains published', async () => {
    const { policies } = await install({ pack: 'read-only' });
    const draft = policies[0]?.policy;
    const rules_json = { ...draft?.rules_json, description: 'ours' };
    const params = { id: draft?.id ?? 0 };
    const body = { rules_json, lifecycle: 'published' as const };
    await gateway.owner.call(updatePolicy, { params, body });
    const again = await install({ pack: 'read-only' });
    expect(again.policies[0]).toMatchObject({
      outcome: 'created',
      policy: { lifecycle: 'draft', version: 3 },
    });
    const inForce = { tenantId: 'default', definitionId: 'pack.read-only', lifecycle: 'published' };
    const rows = await gateway.services.db.policy.findMany({ where: inForce });
    expect(rows.map(({ id }) => id)).toEqual([draft?.id]);
  });

  it('can set the mode monitor for the pack’s policies', async () => {
    const { policies } = await install({
      pack: 'production-change',
      publish: true,
      mode: 'monitor',
    });
    expect(policies[0]?.policy.rules_json).toMatchObject({ mode: 'monitor' });
    expect(policies[0]?.policy.lifecycle).toBe('published');
  });

  it('is refused for an unknown pack, with the names of the existing packs', async () => {
    const error = await refusalOf(install({ pack: '../packs/payments' }));
    expect(error.code).toBe('policy.pack_not_found');
    expect(error.message).toContain('read-only');
  });

  it('is refused if a key without the publish permission requests publish; nothing is stored', async () => {
    const developer = await gateway.as({ role: 'developer' });
    const before = await gateway.services.db.policy.count();
    const error = await refusalOf(install({ pack: 'data-export', publish: true }, developer));
    expect(error.code).toBe('auth.insufficient_permission');
    expect(await gateway.services.db.policy.count()).toBe(before);
  });

  it('stores nothing if all policies of the pack together would exceed the plan’s limit', async () => {
    const { db } = gateway.services;
    await db.tenant.create({ data: { id: 'tight', name: 'tight', plan: 'free' } });
    const owner = await gateway.as({ tenantId: 'tight' });
    for (const pack of ['payments', 'read-only', 'production-change', 'high-risk-tools']) {
      await install({ pack }, owner);
    }
    for (const mode of ['monitor', 'warn', 'strict', 'enforce', 'monitor']) {
      await install({ pack: mode === 'enforce' ? 'code-repositories' : 'payments', mode }, owner);
    }
    await install({ pack: 'high-risk-tools', mode: 'monitor' }, owner);
    const before = await db.policy.count({ where: { tenantId: 'tight' } });
    expect(before).toBe(9);
    const error = await refusalOf(install({ pack: 'data-export' }, owner));
    expect(error.code).toBe('plan.cap_reached');
    expect(error.details).toMatchObject({ feature: 'policies', min_tier: 'team' });
    expect(await db.policy.count({ where: { tenantId: 'tight' } })).toBe(before);
  });

  it.each([
    ['no pack name', {}],
    ['an unknown mode', { pack: 'payments', mode: 'off' }],
    ['a number as its name', { pack: 5 }],
  ])('is refused if the request has %s', async (_what, body) => {
    expect((await post(body)).body).toMatchObject({ reason_code: 'args.schema_invalid' });
  });
});

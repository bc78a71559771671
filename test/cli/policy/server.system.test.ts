import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listPolicies, type PolicyRecord } from '../../../shared/contract/policies/policies.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';
import {
  type PolicyFolder,
  policyFolder,
  refundsPolicy,
} from '../../support/policy/policy-files.ts';

let gateway: Gateway;
let folder: PolicyFolder;
beforeAll(async () => {
  gateway = await startGateway();
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: gateway.api.origin,
    SALLYPORT_API_KEY: await gateway.api.key(),
  });
});
afterAll(async () => {
  folder?.remove();
  await gateway?.close();
});

const policy = (...args: readonly string[]) => folder.sallyport('policy', ...args);
const stored = async (id: string): Promise<readonly PolicyRecord[]> => {
  const { policies } = await gateway.owner.call(listPolicies);
  return policies.filter(({ definition_id }) => definition_id === id);
};
const states = async (id: string) => (await stored(id)).map(({ lifecycle }) => lifecycle);
const named = (id: string, text = refundsPolicy()) => text.replace('id: refunds', `id: ${id}`);

describe('policy push', () => {
  it('stores a draft once, however often it is pushed', async () => {
    folder.write('push/a.policy.yaml', named('drafts'));
    expect(await policy('push', 'push', '--dry-run')).toMatchObject({
      code: 0,
      out: 'drafts (push/a.policy.yaml): would be created\n',
    });
    expect(await stored('drafts')).toEqual([]);
    const first = await policy('push', 'push');
    expect(first).toMatchObject({ code: 0, err: '' });
    const [line = '', warning] = first.out.split('\n');
    expect(line).toMatch(/^drafts \(push\/a\.policy\.yaml\): created, policy \d+$/);
    expect(warning).toContain('matches no tool that is registered, bound or was called before');
    const again = await policy('push', 'push');
    expect(again.out).toBe(`${line.replace('created', 'unchanged')}\n`);
    expect(await states('drafts')).toEqual(['draft']);
  });

  it('changes the existing draft and publishes it', async () => {
    folder.write('change/a.policy.yaml', named('changing'));
    await policy('push', 'change');
    folder.write('change/a.policy.yaml', named('changing', refundsPolicy({ small: 50 })));
    expect((await policy('push', 'change')).out).toContain(': updated, policy ');
    const published = JSON.parse((await policy('push', 'change', '--publish', '--json')).out);
    const [record, ...others] = await stored('changing');
    expect(others).toEqual([]);
    expect(record?.lifecycle).toBe('published');
    expect(published).toEqual({
      policies: [
        {
          definition_id: 'changing',
          file: 'change/a.policy.yaml',
          policy_hash: record?.policy_hash,
          outcome: 'published',
          id: record?.id,
          version: record?.version,
          lifecycle: 'published',
          warnings: expect.arrayContaining([expect.stringContaining('matches no tool')]),
        },
      ],
      findings: [],
      dry_run: false,
      stopped: false,
    });
  });

  it('publishes in one step, replaces the previous version, and reports `unchanged` if repeated', async () => {
    folder.write('publish/a.policy.yaml', named('publishing'));
    expect((await policy('push', 'publish', '--publish')).out).toContain(': published, policy ');
    expect((await policy('push', 'publish', '--publish')).out).toContain(': unchanged, policy ');
    expect((await policy('push', 'publish')).out).toContain(': unchanged, policy ');
    folder.write('publish/a.policy.yaml', named('publishing', refundsPolicy({ small: 10 })));
    expect((await policy('push', 'publish', '--publish')).out).toContain(': published, policy ');
    expect(await states('publishing')).toEqual(['archived', 'published']);
    // Pushes the file of the earlier version again, to restore this version.
    folder.write('publish/a.policy.yaml', named('publishing'));
    expect((await policy('push', 'publish', '--publish')).code).toBe(0);
    expect(await states('publishing')).toEqual(['archived', 'archived', 'published']);
  });

  it('publishes nothing if lint warns, unless warnings are allowed', async () => {
    folder.write('warned/good.policy.yaml', named('blameless'));
    folder.write('warned/bad.policy.yaml', named('warned').replace('refund.out_of_policy', 'todo'));
    const stopped = await policy('push', 'warned', '--publish', '--allow-warnings', '--dry-run');
    expect(stopped.out).toContain('warned (warned/bad.policy.yaml): would be published');
    const { code, out } = await policy('push', 'warned', '--publish');
    expect(code).toBe(1);
    expect(out).toMatch(/bad\.policy\.yaml:\d+: warning missing_reason: warned\/large/);
    expect(out).toContain('Nothing was stored');
    expect([...(await stored('warned')), ...(await stored('blameless'))]).toEqual([]);
    expect((await policy('push', 'warned', '--publish', '--allow-warnings')).code).toBe(0);
    expect([...(await states('warned')), ...(await states('blameless'))]).toEqual([
      'published',
      'published',
    ]);
  });

  it('stores nothing if one file is invalid', async () => {
    folder.write('half/a.policy.yaml', named('half'));
    folder.write('half/b.policy.yaml', 'id: broken');
    const { code, out, err } = await policy('push', 'half');
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain('half/b.policy.yaml:1: ');
    expect(await stored('half')).toEqual([]);
  });

  it('stores nothing and exits with 2 if the key may not publish', async () => {
    folder.write('weak/a.policy.yaml', named('weak'));
    folder.write('weak.key', await gateway.api.key({ role: 'developer' }));
    const { code, err } = await policy('push', 'weak', '--publish', '--key-file', 'weak.key');
    expect(code).toBe(2);
    expect(err).toContain('policy.publish');
    expect(await stored('weak')).toEqual([]);
  });
});

describe('policy diff', () => {
  it('reports differences from the published policy rule by rule, and exits with 1', async () => {
    folder.write('diff/a.policy.yaml', named('compared'));
    expect((await policy('diff', 'diff')).out).toContain(
      'compared (diff/a.policy.yaml): not published, 3 rules\n  + rule "small": allow (refund.small_in_scope) when args.amount <= 100\n',
    );
    await policy('push', 'diff', '--publish');
    expect(await policy('diff', 'diff')).toMatchObject({ code: 0 });
    folder.write(
      'diff/a.policy.yaml',
      named('compared', refundsPolicy({ small: 250, mode: 'monitor' })).replace(
        'name: large',
        'name: big',
      ),
    );
    const { code, out } = await policy('diff', 'diff');
    expect(code).toBe(1);
    const [record] = await stored('compared');
    expect(out.split('\n').slice(0, 5)).toEqual([
      `compared (diff/a.policy.yaml): 4 changes from policy ${record?.id}`,
      '  ~ mode: "enforce" → "monitor"',
      '  ~ rule "small": args.amount <= 100 → 250',
      '  ~ rule "middling": args.amount > 100 → 250',
      '  ~ rule "big": renamed from "large"',
    ]);
    const json = JSON.parse((await policy('diff', 'diff', '--json')).out);
    expect(json.policies[0]).toEqual({
      definition_id: 'compared',
      status: 'changed',
      file: 'diff/a.policy.yaml',
      policy_hash: expect.stringMatching(/^sha256:/),
      published: { id: record?.id, version: 1, policy_hash: record?.policy_hash },
      changes: [
        { kind: 'field_changed', text: 'mode: "enforce" → "monitor"' },
        { kind: 'rule_changed', rule: 'small', text: 'args.amount <= 100 → 250' },
        { kind: 'rule_changed', rule: 'middling', text: 'args.amount > 100 → 250' },
        { kind: 'rule_renamed', rule: 'big', text: 'renamed from "large"' },
      ],
    });
    expect(Object.keys(json.counts)).toEqual(['unchanged', 'changed', 'new', 'only_published']);
  });

  it('counts published policies that have no file only if --all is given', async () => {
    folder.write('all/a.policy.yaml', named('in-file'));
    folder.write('elsewhere/b.policy.yaml', named('in-no-file'));
    await policy('push', 'all', 'elsewhere', '--publish');
    const one = await policy('diff', 'all');
    expect(one.code).toBe(0);
    expect(one.out).toMatch(/^in-no-file: published as policy \d+, has no file$/m);
    expect((await policy('diff', 'all', '--all')).code).toBe(1);
  });
});

it('`policy lint --published` finds conflicts with a published policy', async () => {
  folder.write(
    'clash/deny.policy.yaml',
    named('denying')
      .replaceAll(/decision: \w+/g, 'decision: deny')
      .replace(/ {4}approval.*\n/, ''),
  );
  expect((await policy('lint', 'clash')).code).toBe(0);
  folder.write('allow/allow.policy.yaml', named('allowing'));
  await policy('push', 'allow', '--publish', '--allow-warnings');
  const { code, out } = await policy('lint', 'clash', '--published');
  expect(code).toBe(1);
  expect(out).toMatch(/published allowing: \w+ shadowed_rule: allowing\/small: .*denying\/small/);
});

it('a policy command exits with 2 and states what to do if the control plane is unreachable or the key is invalid', async () => {
  folder.write('gone/a.policy.yaml', named('gone'));
  for (const verb of ['diff', 'push', 'backtest']) {
    const { code, out, err } = await policy(
      verb,
      'gone/a.policy.yaml',
      '--url',
      'http://127.0.0.1:9',
    );
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain('is it running there?');
  }
  folder.write('wrong.key', 'apk_wrong');
  const { code, err } = await policy('diff', 'gone', '--key-file', 'wrong.key');
  expect(code).toBe(2);
  expect(err).toContain('The API key is not valid.');
});

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import {
  listPolicies,
  type PolicyRecord,
  updatePolicy,
  versionPolicy,
} from '../../../shared/contract/policies/policies.ts';
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
const named = (id: string, text = refundsPolicy()) => text.replace('id: refunds', `id: ${id}`);

describe('policy observed', () => {
  it('takes a definition id, and counts the calls that this policy in monitor would have refused', async () => {
    const agent_id = await gateway.agent();
    folder.write(
      'watch/a.policy.yaml',
      onOtherTool(named('watched', refundsPolicy({ mode: 'monitor' }))),
    );
    await policy('push', 'watch', '--publish', '--allow-warnings');
    expect(await policy('observed', 'watched')).toMatchObject({
      code: 0,
      out: expect.stringMatching(
        /^watched \(monitor, policy \d+\): matched 0 decisions, would have refused 0 /,
      ),
    });
    folder.write('open/a.policy.yaml', onOtherTool(openPolicy));
    await policy('push', 'open', '--publish', '--allow-warnings');
    await gateway.owner.call(preflight, {
      body: {
        agent_id,
        user_id: 'user-1',
        tool: 'watched.refund',
        resource: 'payment:p1',
        args: { amount: 5000 },
      },
    });
    const { code, out } = await policy('observed', 'watched', '--last', '1h');
    expect([code, out]).toEqual([
      1,
      expect.stringContaining('matched 1 decision, would have refused 1 '),
    ]);
    expect(out).toMatch(/\n {2}deny refund\.out_of_policy: 1\nsuch as ev_\w+\n$/);
  });

  it('lists the published policies if the given id is not published, and exits with 2', async () => {
    const { code, out, err } = await policy('observed', 'wached');
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(
      /Policy wached is not published\. Use the id of a published policy: .*watched/,
    );
  });
});

describe('policy rollback', () => {
  const pushed = async (small: number) => {
    folder.write('back/a.policy.yaml', named('back', refundsPolicy({ small })));
    expect((await policy('push', 'back', '--publish', '--allow-warnings')).code).toBe(0);
    return inForce();
  };
  const inForce = async () => {
    const [record, ...others] = (await stored('back')).filter(
      ({ lifecycle }) => lifecycle === 'published',
    );
    expect(others).toEqual([]);
    return record;
  };

  it('publishes the previous version or the version in --to; after an interruption, publishes the draft that was left', async () => {
    const first = await pushed(10);
    expect((await policy('rollback', 'back')).err).toContain(
      'Policy back has no earlier published version',
    );
    const second = await pushed(20);
    const third = await pushed(30);

    const dry = await policy('rollback', 'back', '--dry-run');
    expect(dry.out).toContain(`back: dry run, the content of policy ${second?.id} replaces`);
    expect((await inForce())?.id).toBe(third?.id);

    const left = await gateway.owner.call(versionPolicy, { params: { id: String(second?.id) } });
    expect(await policy('rollback', 'back')).toMatchObject({
      code: 0,
      out: `back: published policy ${left.id}, the content of policy ${second?.id} replaces policy ${third?.id}\n`,
    });
    expect((await inForce())?.policy_hash).toBe(second?.policy_hash);

    await policy('rollback', 'back', '--to', String(first?.id));
    expect((await inForce())?.policy_hash).toBe(first?.policy_hash);
    await policy('rollback', 'back');
    expect((await inForce())?.policy_hash).toBe(second?.policy_hash);
  });

  it('refuses a version that was never published, and a key without the permission to publish', async () => {
    const before = await inForce();
    folder.write('back/a.policy.yaml', named('back', refundsPolicy({ small: 99 })));
    await policy('push', 'back');
    const draft = (await stored('back')).find(({ lifecycle }) => lifecycle === 'draft');
    const unheard = await policy('rollback', 'back', '--to', String(draft?.id));
    expect([unheard.code, unheard.out]).toEqual([2, '']);
    expect(unheard.err).toContain('is not an earlier published version of back; use one of ');
    folder.write('weak.key', await gateway.api.key({ role: 'developer' }));
    const weak = await policy('rollback', 'back', '--key-file', 'weak.key');
    expect([weak.code, weak.out]).toEqual([2, '']);
    expect(weak.err).toContain('policy.publish');
    expect((await inForce())?.id).toBe(before?.id);
  });
});

describe('policy packs and install', () => {
  it('list packs, store a draft once, and publish in the given mode', async () => {
    expect((await policy('packs')).out).toMatch(/^payments\n {4}Stops refunds/m);
    expect((await policy('install', 'read-only')).out).toMatch(/: created, policy \d+, a draft\n$/);
    expect((await policy('install', 'read-only')).out).toMatch(/: unchanged, .*, a draft\n$/);
    const watch = await policy('install', 'high-risk-tools', '--publish', '--mode', 'monitor');
    expect(watch.out).toMatch(/^pack\.high-risk-tools: created and published, policy \d+\n$/);
    const [record] = await stored('pack.high-risk-tools');
    expect(record).toMatchObject({ lifecycle: 'published', rules_json: { mode: 'monitor' } });
  });

  it('list the available packs for an unknown pack and the allowed modes for an unknown mode, and exit with 2', async () => {
    const [pack, mode] = await Promise.all([
      policy('install', 'payment'),
      policy('install', 'payments', '--mode', 'monitr'),
    ]);
    expect([pack.code, mode.code]).toEqual([2, 2]);
    expect(pack.err).toContain('available: code-repositories, ');
    expect(mode.err).toContain('Allowed choices are monitor, warn, enforce, strict.');
  });
});

const onOtherTool = (text: string) => text.replaceAll('payments.refund', 'watched.refund');

const openPolicy = `id: open
version: 1
applies_to:
  tools: [payments.refund]
rules:
  - name: any
    decision: allow
    reason: refund.any
    when:
      all:
        - { path: tool.name, operator: ==, value: payments.refund }
`;

describe('policy push', () => {
  it('does not publish a draft that another client changed after `policy push` read the draft', async () => {
    folder.write('raced/a.policy.yaml', onOtherTool(named('raced')));
    await policy('push', 'raced');
    const [draft] = await stored('raced');
    const meanwhile = { ...draft?.rules_json, description: 'by somebody else' };
    const relay = createServer(async (req, res) => {
      const body = Buffer.concat(await Array.fromAsync(req));
      if (req.method === 'PUT') {
        const params = { id: String(draft?.id) };
        await gateway.owner.call(updatePolicy, { params, body: { rules_json: meanwhile } });
      }
      const answer = await fetch(`${gateway.api.origin}${req.url}`, {
        method: req.method ?? 'GET',
        headers: {
          authorization: String(req.headers.authorization),
          'content-type': 'application/json',
        },
        ...(body.length === 0 ? {} : { body }),
      });
      res.writeHead(answer.status, { 'content-type': 'application/json' });
      res.end(await answer.text());
    }).listen(0, '127.0.0.1');
    await once(relay, 'listening');
    try {
      const url = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;
      const pushed = await policy('push', 'raced', '--publish', '--allow-warnings', '--url', url);
      expect(pushed.code).not.toBe(0);
      expect(pushed.err).toContain('has the hash');
      expect((await stored('raced'))[0]).toMatchObject({
        lifecycle: 'draft',
        rules_json: { description: 'by somebody else' },
      });
    } finally {
      relay.close();
    }
  });
});

import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ActionIdentity,
  actionDigest,
  digestOf,
} from '../../../shared/approval/action-digest.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { sha256 } from '../../../shared/crypto/hash.ts';
import { baseAction } from '../fixtures.ts';

const text = fc.string({ maxLength: 3 });
const identity: fc.Arbitrary<ActionIdentity> = fc.record({
  tenant: text,
  agent_id: text,
  user_id: text,
  tool: text,
  resource: text,
  args: fc
    .dictionary(text, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 })
    .map((args) => JSON.parse(JSON.stringify(args)) as JsonObject),
  mcp: fc.option(fc.record({ request_state: text }), { nil: undefined }),
  manifest_hash: fc.option(text),
});

describe('the digest of an action', () => {
  it('is SHA-256 over the canonical form', () => {
    expect(
      actionDigest({
        tenant: 't',
        agent_id: '1',
        user_id: 'u',
        tool: 'x',
        resource: 'r',
        args: { b: 1, a: [] },
        manifest_hash: null,
      }),
    ).toBe(
      sha256(
        '{"agent_id":"1","args":{"a":[],"b":1},"manifest_hash":null,"resource":"r","tenant":"t","tool":"x","user_id":"u"}',
      ),
    );
  });

  it('is equal for two actions if and only if the actions are equal', () => {
    fc.assert(
      fc.property(identity, identity, (one, other) => {
        expect(actionDigest(one) === actionDigest(other)).toBe(isDeepStrictEqual(one, other));
        expect(actionDigest(structuredClone(one))).toBe(actionDigest(one));
      }),
    );
  });

  it.each<Partial<typeof baseAction>>([
    { tenantId: 'globex' },
    { agentId: '8' },
    { userId: 'bob' },
    { tool: 'mcp.payments.pay' },
    { resource: 'payment:pay_2' },
    { args: { ...baseAction.args, amount: 51 } },
    { args: { ...baseAction.args, amount: '50' } },
    { args: { ...baseAction.args, extra: null } },
    { mcp: {} },
    { mcp: { request_state: 's' } },
  ])('changes if the action is changed by %j', (change) => {
    expect(digestOf({ ...baseAction, ...change }, 'h')).not.toBe(digestOf(baseAction, 'h'));
  });

  it('changes if the manifest hash changes or is absent', () => {
    const digests = ['h', 'g', undefined].map((hash) => digestOf(baseAction, hash));
    expect(new Set(digests).size).toBe(3);
  });

  it('does not depend on fields that are not part of an approval', () => {
    const more = { goal: 'x', mode: 'monitor', audience: 'y', agentName: 'z' } as const;
    expect(digestOf({ ...baseAction, ...more }, 'h')).toBe(digestOf(baseAction, 'h'));
  });
});

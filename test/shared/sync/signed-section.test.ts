import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { signJws } from '../../../shared/crypto/jws.ts';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { heartbeatType, type SectionBodies, sectionType } from '../../../shared/sync/sections.ts';
import { openHeartbeat, signHeartbeat } from '../../../shared/sync/signed-heartbeat.ts';
import { openSection, sectionDigest, signSection } from '../../../shared/sync/signed-section.ts';

const key = generateSigningKey();
const keys = verificationKeys([key.publicJwk]);
const tenant = { id: 'acme', name: 'Acme', mode: 'enforce' } as const;
const envelope = { tenant: 'acme', section: 'tenant', version: 7, body: tenant };
const expected = { tenant: 'acme', section: 'tenant' } as const;

const bodies: { readonly [Name in keyof SectionBodies]: SectionBodies[Name] } = {
  tenant,
  policies: {
    policies: [
      {
        id: 1,
        hash: 'sha256:1',
        definition: {
          id: 'refunds',
          version: 2,
          mode: 'enforce',
          applies_to: { tools: ['payments.*'] },
          rules: [
            {
              name: 'big',
              decision: 'require_approval',
              reason: 'amount.high',
              approval: { min_role: 'admin', quorum: 2, grant: { max_uses: 5, scope: 'tool' } },
              when: { all: [{ path: 'args.amount', operator: '>', value: { $ref: 'args.max' } }] },
            },
          ],
        },
      },
    ],
  },
  tools: {
    tools: [
      {
        name: 'mcp.payments.refund',
        manifestHash: 'sha256:2',
        approvalStatus: 'approved',
        riskTier: 'high',
        inputSchema: { type: 'object', properties: { amount: { type: 'number' } } },
      },
    ],
  },
  agents: {
    agents: [{ id: '1', name: 'bot', capabilities: ['payments.*'] }],
    users: [{ id: 'u' }],
  },
  bindings: {
    bindings: [
      {
        name: 'payments',
        protocol: 'http',
        host: 'api.example.com',
        method: 'POST',
        path: '/v1/payments/{id}',
        body: 'json',
        upstream: { url: 'https://api.example.com', method: 'POST', headers: { 'x-a': 'b' } },
      },
    ],
  },
  kill_switches: {
    killSwitches: [{ id: 'ks', kind: 'force_mode', mode: 'strict', reason: 'incident' }],
  },
  revocations: { jtis: ['pp_1'], agentIds: ['2'], sidecarIds: ['sc_1'] },
  keys: { passportKeys: [key.publicJwk] },
};

const names = Object.keys(bodies) as (keyof SectionBodies)[];

describe('a signed section', () => {
  it.each(names)('is read with the content that was signed: section %s', (section) => {
    const body = bodies[section];
    const token = signSection({ tenant: 'acme', section, version: 3, body }, key);
    expect(openSection(token, keys, { tenant: 'acme', section })).toEqual({
      ok: true,
      envelope: { tenant: 'acme', section, version: 3, body },
      digest: sectionDigest(token),
    });
  });

  it('is read with the content that was signed if it is for a single sidecar', () => {
    const body = {
      lease: 'a.b.c',
      approvals: [
        {
          id: 4,
          actionDigest: 'sha256:1',
          status: 'modified',
          expiresAtMs: 5,
          effectiveDigest: 'sha256:2',
          effectiveArgs: { amount: 1 },
          passport: 'd.e.f',
          used: false,
        },
      ],
      credentialsVersion: 2,
    } as const;
    const section = 'sidecar:sc_1';
    const token = signSection({ tenant: 'acme', section, version: 1, body }, key);
    expect(openSection(token, keys, { tenant: 'acme', section })).toMatchObject({
      ok: true,
      envelope: { body },
    });
  });

  it('is rejected if it was signed for a different tenant, section name or sidecar', () => {
    const token = signSection(envelope, key);
    expect(openSection(token, keys, { ...expected, tenant: 'other' })).toMatchObject({
      problem: 'wrong_tenant',
    });
    expect(openSection(token, keys, { ...expected, section: 'policies' })).toMatchObject({
      problem: 'wrong_section',
    });
    const lease = { approvals: [], credentialsVersion: 0 };
    const other = signSection({ ...envelope, section: 'sidecar:a', body: lease }, key);
    expect(openSection(other, keys, { tenant: 'acme', section: 'sidecar:b' })).toMatchObject({
      problem: 'wrong_section',
    });
  });

  it('is rejected if it is unsigned or signed with an unknown key', () => {
    const forged = signSection(envelope, generateSigningKey());
    expect(openSection(forged, keys, expected)).toMatchObject({ problem: 'signature_invalid' });
    const [, body] = signSection(envelope, key).split('.');
    const header = Buffer.from(JSON.stringify({ alg: 'none', kid: key.kid, typ: sectionType }));
    const unsigned = `${header.toString('base64url')}.${body}.AA`;
    expect(openSection(unsigned, keys, expected)).toMatchObject({ problem: 'malformed' });
  });

  it('is not accepted as a heartbeat, and a heartbeat or a passport is not accepted as a section', () => {
    const heartbeat = { tenant: 'acme', sequence: 1, time: 0, sections: {} };
    const section = signSection(envelope, key);
    expect(openHeartbeat(section, keys, { tenant: 'acme' }).ok).toBe(false);
    expect(openSection(signHeartbeat(heartbeat, key), keys, expected).ok).toBe(false);
    const passport = signJws(envelope, 'action-passport+jwt', key);
    expect(openSection(passport, keys, expected).ok).toBe(false);
  });

  it('is rejected if any of its characters is changed', () => {
    const token = signSection(envelope, key);
    // The last character of a base64url part may have unused bits.
    const parts = token.split('.');
    fc.assert(
      fc.property(
        fc.nat(2),
        fc.nat(),
        fc.constantFrom('A', 'z', '-', '.', '='),
        (p, at, letter) => {
          const part = parts[p] ?? '';
          const index = at % (part.length - 1);
          if (part[index] === letter) return;
          const changed = parts.with(p, part.slice(0, index) + letter + part.slice(index + 1));
          expect(openSection(changed.join('.'), keys, expected).ok).toBe(false);
        },
      ),
    );
  });

  it.each([
    ['a version of 0', { version: 0 }],
    ['a version that is not an integer', { version: 1.5 }],
    ['a version above the safe range', { version: 2 ** 53 }],
    ['a version as text', { version: '7' }],
    ['no body', { body: undefined }],
    ['a body that is an array', { body: [] }],
    ['an unknown mode', { body: { ...tenant, mode: 'lenient' } }],
    ['an unknown field', { body: { ...tenant, unless: 'friday' } }],
    ['an unknown field of the envelope', { not_before: 5 }],
  ])('is rejected with %s, although the signature is valid', (_what, change) => {
    const token = signSection({ ...envelope, ...change } as typeof envelope, key);
    expect(openSection(token, keys, expected)).toMatchObject({ ok: false, problem: 'malformed' });
  });

  it.each([
    ['an operator of a policy', (text: string) => text.replace('"operator":">"', '"operator":"~"')],
    [
      'a decision of a policy',
      (text: string) => text.replace('require_approval', 'require_prayer'),
    ],
    ['a quantifier of a policy', (text: string) => text.replace('"all":', '"most":')],
    ['a condition of a policy', (text: string) => text.replace('"reason":', '"until":1,"reason":')],
  ])('is rejected as a whole if it contains %s that the sidecar does not know', (_what, edit) => {
    const body = JSON.parse(edit(JSON.stringify(bodies.policies)));
    const token = signSection({ tenant: 'acme', section: 'policies', version: 1, body }, key);
    expect(openSection(token, keys, { tenant: 'acme', section: 'policies' }).ok).toBe(false);
  });

  it('is accepted even if it is much longer than a token from an agent may be', () => {
    const { policies } = bodies.policies;
    const many = Array.from({ length: 2_000 }, (_, id) => ({ ...policies[0], id }));
    const body = { policies: many };
    const token = signSection({ tenant: 'acme', section: 'policies', version: 1, body }, key);
    expect(token.length).toBeGreaterThan(500_000);
    expect(openSection(token, keys, { tenant: 'acme', section: 'policies' }).ok).toBe(true);
  });

  it('is rejected, without an exception, if it is arbitrary text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), fc.base64String()), (text) => {
        expect(openSection(text, keys, expected).ok).toBe(false);
        expect(openHeartbeat(`${text}.${text}.${text}`, keys, { tenant: 'acme' }).ok).toBe(false);
      }),
    );
  });
});

describe('a signed heartbeat', () => {
  const heartbeat = {
    tenant: 'acme',
    sequence: 5,
    time: 1_700_000_000_000,
    sections: { policies: { version: 3, digest: 'sha256:x' } },
  };

  it('is read with the content that was signed', () => {
    expect(openHeartbeat(signHeartbeat(heartbeat, key), keys, { tenant: 'acme' })).toEqual({
      ok: true,
      heartbeat,
    });
  });

  it('is rejected if it is forged or was signed for a different tenant', () => {
    const forged = signHeartbeat(heartbeat, generateSigningKey());
    expect(openHeartbeat(forged, keys, { tenant: 'acme' })).toMatchObject({
      problem: 'signature_invalid',
    });
    expect(openHeartbeat(signHeartbeat(heartbeat, key), keys, { tenant: 'b' })).toMatchObject({
      problem: 'wrong_tenant',
    });
  });

  it.each([
    ['sequence 0', { sequence: 0 }],
    ['a time as text', { time: 'now' }],
    ['a section without a digest', { sections: { policies: { version: 3 } } }],
  ])('is rejected with %s, although the signature is valid', (_what, change) => {
    const token = signJws({ ...heartbeat, ...change }, heartbeatType, key);
    expect(openHeartbeat(token, keys, { tenant: 'acme' }).ok).toBe(false);
  });
});

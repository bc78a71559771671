import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rotateSigningKey } from '../../../control-plane/keys/rotate-signing-key.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import { issueAgentPassport } from '../../../shared/contract/agent-passports.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import {
  createEnrolmentToken,
  enrolSidecar,
  listSidecars,
  revokeSidecar,
} from '../../../shared/contract/sidecars.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let agentId: string;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('bot', ['pay.*']);
});
afterAll(() => gateway.close());

const x25519 = 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo';

async function token(more: object = {}): Promise<string> {
  const body = { agent_id: agentId, user_id: 'user-1', ...more };
  return (await gateway.owner.call(createEnrolmentToken, { body })).token;
}

async function enrolWith(withToken: string, more: object = {}) {
  const body = {
    token: withToken,
    signing_jwk: { kty: 'OKP', crv: 'Ed25519', x: generateSigningKey().publicJwk.x } as const,
    encryption_jwk: { kty: 'OKP', crv: 'X25519', x: x25519 } as const,
    ...more,
  };
  return gateway.owner.call(enrolSidecar, { body });
}

describe('an enrolment token', () => {
  it('enrols one sidecar, for the agent, user and environment that it names', async () => {
    const enrolled = await enrolWith(await token({ environment: 'dev' }));
    expect(enrolled).toMatchObject({
      tenant_id: 'default',
      agent_id: agentId,
      user_id: 'user-1',
      environment: 'dev',
      audience: `sidecar://${enrolled.sidecar_id}`,
    });
    expect(enrolled.section_keys.length).toBeGreaterThan(0);
    expect(enrolled.passport_keys.length).toBeGreaterThan(0);
  });

  it('contains the active section key, but no retired section key', async () => {
    const before = (await enrolWith(await token())).section_keys;
    const rotated = await gateway.services.signingKeys.history('default', 'sync');
    expect(before.map(({ kid }) => kid)).toEqual([rotated.at(-1)?.kid]);
    const { active_key_id } = await rotateSigningKey(
      gateway.services,
      { tenantId: 'default', principal: 'owner' } as Caller,
      'sync',
    );
    const after = (await enrolWith(await token())).section_keys;
    expect(after.map(({ kid }) => kid)).toEqual([active_key_id]);
  });

  it('is stored as a hash only', async () => {
    const made = await token();
    const rows = await gateway.services.db.enrolmentToken.findMany();
    expect(JSON.stringify(rows, (_k, v) => (typeof v === 'bigint' ? String(v) : v))).not.toContain(
      made,
    );
  });

  it('can be used exactly as often as it states, even by concurrent requests', async () => {
    const made = await token({ max_uses: 3 });
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => enrolWith(made)));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    expect((await refusalOf(enrolWith(made))).code).toBe('sidecar.token_invalid');
  });

  it('is valid for ten minutes', async () => {
    const made = await token();
    gateway.services.clock.advance(10 * 60_000);
    const error = await refusalOf(enrolWith(made));
    expect(error.code).toBe('sidecar.token_invalid');
    expect(error.details).toMatchObject({ status: 401 });
  });

  it('is refused after its agent was disabled', async () => {
    const gone = await gateway.agent('soon gone');
    const made = await token({ agent_id: gone });
    await gateway.services.db.agent.update({
      where: { id: Number(gone) },
      data: { disabledAt: new Date() },
    });
    expect((await refusalOf(enrolWith(made))).code).toBe('agent.disabled');
  });

  it('cannot be created for an unknown agent', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const body = { agent_id: agentId, user_id: 'user-1' };
    expect((await refusalOf(stranger.call(createEnrolmentToken, { body }))).code).toBe(
      'agent.not_found',
    );
    expect((await refusalOf(token({ agent_id: '0' }))).code).toBe('agent.not_found');
  });

  it.each([
    ['a signing key of a wrong curve', { signing_jwk: { kty: 'OKP', crv: 'X25519', x: 'AAAA' } }],
    ['a malformed encryption key', { encryption_jwk: { kty: 'OKP', crv: 'X25519', x: 'short' } }],
    ['a request without keys', { signing_jwk: undefined }],
  ])('is not consumed by %s', async (_what, more) => {
    const made = await token();
    expect((await refusalOf(enrolWith(made, more))).code).toBe('args.schema_invalid');
    expect(await enrolWith(made)).toHaveProperty('sidecar_id');
  });
});

describe('an enrolled key', () => {
  const hex = (text: string) => Buffer.from(text, 'hex').toString('base64url');
  const ones = 'ff'.repeat(30);
  // The points of order 1, 2, 4 and 8 from RFC 7748 and libsodium, in canonical and other encodings.
  const lowX25519 = [
    '00'.repeat(32),
    `01${'00'.repeat(31)}`,
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    `ec${ones}7f`,
    `ed${ones}7f`,
    `ee${ones}7f`,
    `${'00'.repeat(31)}80`,
  ];
  const lowEd25519 = [
    '00'.repeat(32),
    `01${'00'.repeat(31)}`,
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
    `ec${ones}7f`,
    `ed${ones}7f`,
    `ee${ones}ff`,
  ];
  it.each([
    ...lowX25519.map((key) => ['encryption_jwk', 'X25519', key] as const),
    ...lowEd25519.map((key) => ['signing_jwk', 'Ed25519', key] as const),
  ])('is refused as %s if it is the %s low-order point %s', async (field, crv, key) => {
    const made = await token();
    const error = await refusalOf(enrolWith(made, { [field]: { kty: 'OKP', crv, x: hex(key) } }));
    expect(error.code).toBe('args.schema_invalid');
    expect(error.message).toMatch(new RegExp(`^${field}: .*low order`));
    expect(await enrolWith(made)).toHaveProperty('sidecar_id');
  });
});

describe('an enrolled sidecar', () => {
  it('is listed with its last report, for callers of its tenant only', async () => {
    const sidecar = await enrolledSidecar(gateway, agentId);
    const report = {
      versions: { policies: 2 },
      age_ms: 5,
      spool_depth: 1,
      spool_written: 1,
      version: '1',
    };
    await sidecar.controlPlane.report(report);
    const { sidecars } = await gateway.owner.call(listSidecars);
    const listed = sidecars.find(({ id }) => id === sidecar.id);
    expect(listed).toMatchObject({ agent_id: agentId, report, last_seen_at: expect.any(String) });
    const stranger = await gateway.as({ tenantId: 'other' });
    expect((await stranger.call(listSidecars)).sidecars).toEqual([]);
  });

  it('is refused in every call after its revocation; a repeated revocation is not recorded again', async () => {
    const sidecar = await enrolledSidecar(gateway, agentId);
    const revoke = () => gateway.owner.call(revokeSidecar, { params: { id: sidecar.id } });
    const first = await revoke();
    expect(await revoke()).toEqual(first);
    const calls = [
      () => sidecar.controlPlane.credentials(),
      () => sidecar.controlPlane.spendApproval(1),
      () => sidecar.controlPlane.claimPassport('x', Date.now()),
    ];
    for (const call of calls) expect((await refusalOf(call())).code).toBe('sidecar.revoked');
    const rows = await gateway.services.db.evidenceRow.findMany({
      where: { chainId: `sidecar:${sidecar.id}`, type: 'sidecar.revoked' },
    });
    expect(rows).toHaveLength(1);
  });

  it('cannot be revoked by another tenant', async () => {
    const { id } = await enrolledSidecar(gateway, agentId);
    const stranger = await gateway.as({ tenantId: 'other' });
    const error = await refusalOf(stranger.call(revokeSidecar, { params: { id } }));
    expect(error.code).toBe('sidecar.not_found');
    const where = { tenantId_id: { tenantId: 'default', id } };
    expect(await gateway.services.db.sidecar.findUnique({ where })).toMatchObject({
      revokedAt: null,
    });
  });
});

describe('a sidecar’s claim of a passport', () => {
  const jtiOf = async (ofAgent: string) => {
    const body = { agent_id: Number(ofAgent), requested_tools: ['pay.x'] };
    return (await gateway.owner.call(issueAgentPassport, { body })).claims.jti;
  };

  it('succeeds for only one of several sidecars', async () => {
    const fleet = await Promise.all([1, 2, 3].map(() => enrolledSidecar(gateway, agentId)));
    const expires = gateway.services.clock.now() + 60_000;
    const jti = await jtiOf(agentId);
    const claims = await Promise.all(
      fleet.map((one) => one.controlPlane.claimPassport(jti, expires)),
    );
    expect(claims.filter(Boolean)).toHaveLength(1);
  });

  it('cannot consume the passport of another agent, or a passport that was never issued', async () => {
    const jti = await jtiOf(await gateway.agent('another'));
    const { controlPlane } = await enrolledSidecar(gateway, agentId);
    for (const foreign of [jti, 'pp_unknown']) {
      const error = await refusalOf(controlPlane.claimPassport(foreign, 0));
      expect(error.code).toBe('passport.agent_mismatch');
    }
    expect(await gateway.services.db.passportUse.count({ where: { jti } })).toBe(0);
  });
});

describe('a key that is bound to one agent', () => {
  it.each(['admin', 'owner'] as const)(
    'and has the role %s can create enrolment tokens for this agent only and cannot change other agents',
    async (role) => {
      const victim = await gateway.agent('victim', ['read.*']);
      const bound = await gateway.as({ role, agentId: Number(agentId) });
      const body = { agent_id: victim, user_id: 'ceo' };
      const token = await refusalOf(bound.call(createEnrolmentToken, { body }));
      expect(token.code).toBe('agent.mismatch');
      for (const name of ['victim', `new of ${role}`]) {
        const wider = { name, capabilities: ['**'] };
        const change = await refusalOf(bound.call(registerAgent, { body: wider }));
        expect(change.code).toBe('agent.mismatch');
      }
      await enrolledSidecar(gateway, agentId);
      const own = { agent_id: agentId, user_id: 'user-1', environment: 'staging' } as const;
      expect((await bound.call(createEnrolmentToken, { body: own })).token).toMatch(/^set_/);
    },
  );
});

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSidecar } from '../../../proxy/main.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import { generateSigningKey, importPrivateKey } from '../../../shared/crypto/signing-key.ts';
import { converse } from '../../support/disguises/wire.ts';
import { until } from '../../support/programs/processes.ts';
import {
  type IdentityStage,
  proxyToken,
  startIdentityStage,
  strangerKey,
} from '../../support/system/identity-stage.ts';

let stage: IdentityStage;
beforeAll(async () => {
  stage = await startIdentityStage();
}, 90_000);
afterAll(() => stage?.close());

function tampered(passport: string, change: (claims: Record<string, unknown>) => object): string {
  const [head = '', body = '', signature = ''] = passport.split('.');
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>;
  return [head, Buffer.from(JSON.stringify(change(claims))).toString('base64url'), signature].join(
    '.',
  );
}

describe('a presented passport', () => {
  const cases: readonly [string, () => Promise<string>, string][] = [
    [
      'of another agent',
      () => stage.issue({ agent_id: stage.otherAgent }),
      'passport.agent_mismatch',
    ],
    ['of another tenant', strangers, 'passport.signature_invalid'],
    [
      'for another tool',
      () => stage.issue({ allowed_tools: ['payments.read'] }),
      'passport.tool_not_allowed',
    ],
    [
      'of another sidecar’s audience',
      () => stage.issue({ audience: `sidecar://${stage.other.identity.sidecarId}` }),
      'passport.audience_mismatch',
    ],
    [
      'that is another sidecar’s lease',
      () => stage.leaseOf(stage.other.identity.sidecarId),
      'passport.malformed',
    ],
    [
      'that is its own sidecar’s lease',
      async () => stage.leaseOf(stage.firstSidecar),
      'passport.malformed',
    ],
    [
      'with a changed agent',
      async () =>
        tampered(await stage.issue({ agent_id: stage.otherAgent }), (claims) => ({
          ...claims,
          sub: stage.separate.agentId,
        })),
      'passport.signature_invalid',
    ],
    [
      'with a later expiry',
      async () => tampered(await stage.issue(), (claims) => ({ ...claims, exp: 4_000_000_000 })),
      'passport.signature_invalid',
    ],
    [
      'without a signature',
      async () => (await stage.issue()).replace(/[^.]+$/, ''),
      'passport.malformed',
    ],
    [
      'with the algorithm none',
      async () =>
        `${Buffer.from('{"alg":"none","typ":"action-passport+jwt"}').toString('base64url')}.${(await stage.issue()).split('.')[1]}.`,
      'passport.malformed',
    ],
    ['signed with the agent’s own key', forged, 'passport.signature_invalid'],
    ['with empty content', async () => '', 'passport.malformed'],
    ['with malformed content', async () => 'x'.repeat(5000), 'passport.malformed'],
  ];
  it.each(cases)(
    'is refused, and nothing reaches the upstream: %s',
    async (_whose, passport, reason) => {
      const token = await passport();
      stage.recorder.take();
      const answer = await stage.send([`Action-Passport: ${token}`]);
      expect(answer?.body).toContain(`"reason_code":"${reason}"`);
      expect(stage.recorder.take()).toBe('');
    },
  );

  it('is refused after its expiry', async () => {
    const passport = await stage.issue({ ttl_seconds: 5 });
    const until5s = Date.now() + 5_100;
    await until('it has expired', () => Date.now() > until5s);
    stage.recorder.take();
    const answer = await stage.send([`Action-Passport: ${passport}`]);
    expect(answer?.body).toContain('"reason_code":"passport.expired"');
    expect(stage.recorder.take()).toBe('');
  });

  it('is accepted only once, from its own agent, and is not sent to the upstream', async () => {
    const passport = await stage.issue();
    stage.recorder.take();
    const hints = [
      `Action-Passport: ${passport}`,
      'Action-Goal: r\xc3\xbcckzahlen',
      'Action-Idempotency-Key: k1',
    ];
    expect((await stage.send(hints))?.status).toBe(200);
    expect(stage.recorder.take().toLowerCase()).not.toMatch(/action-|k1|eyj/);
    expect((await stage.send(hints))?.body).toContain('"reason_code":"passport.replay_detected"');
  });

  it('is refused if it is sent in two headers', async () => {
    const [one, two] = [await stage.issue(), await stage.issue()];
    const answer = await stage.send([`Action-Passport: ${one}`, `Action-Passport: ${two}`]);
    expect(answer?.body).toContain('"reason_code":"proxy.request_invalid"');
  });

  async function strangers(): Promise<string> {
    const body = JSON.stringify({ name: 'stranger', capabilities: ['**'] });
    const headers = { authorization: `Bearer ${strangerKey}`, 'content-type': 'application/json' };
    const url = `${stage.separate.origin}/api/v1/agents/register`;
    const registered = (await (await fetch(url, { method: 'POST', headers, body })).json()) as {
      agent_id: string;
    };
    return stage.issue({ agent_id: String(registered.agent_id), tenant_id: 'other' }, strangerKey);
  }

  async function forged(): Promise<string> {
    const claims = JSON.parse(
      Buffer.from((await stage.issue()).split('.')[1] ?? '', 'base64url').toString(),
    ) as Record<string, never>;
    return signJws(claims, 'action-passport+jwt', generateSigningKey());
  }
});

describe('an agent’s claims about its identity', () => {
  it.each([
    [
      'in the arguments',
      [],
      { agent_id: '2', user_id: 'ceo', tenant_id: 'other', environment: 'dev' },
    ],
    [
      'in headers',
      [
        'X-Agent-Id: 2',
        'X-User-Id: ceo',
        'Agent-Id: 2',
        'Action-Agent: 2',
        'Action-User: ceo',
        'Sallyport-Agent: 2',
        'X-Tenant-Id: other',
      ],
      {},
    ],
    ['in a goal', ['Action-Goal: {"agent_id":"2","user_id":"ceo"}'], {}],
  ] as const)('do not change the recorded identity: %s', async (_where, headers, args) => {
    const { api, agentId } = stage.separate;
    stage.recorder.take();
    const answer = await stage.send(headers, args);
    expect(answer?.status).toBe(200);
    expect(stage.recorder.take()).not.toMatch(/agent-id|user-id|action-|sallyport-/i);
    const id = /; evidence=(\S+)/i.exec(answer?.headers ?? '')?.[1] ?? '';
    await until('it is in the ledger', async () => (await stage.reasons()).has(id));
    const { body } = await api('GET', '/v1/evidence/events?limit=1000&tool=payments.refund');
    const event = (body.events as Record<string, unknown>[]).find((one) => one.id === id);
    expect(event).toMatchObject({
      agent_id: agentId,
      user_id: 'user_1',
      chain_id: `agent:${agentId}`,
      decision: 'allow',
    });
  });
});

describe('another process on the agent’s machine', () => {
  const basic = (text: string) =>
    `Proxy-Authorization: Basic ${Buffer.from(text).toString('base64')}`;
  it.each([
    ['without the token', []],
    ['with another token', ['Proxy-Authorization: Bearer another-token-altogether']],
    ['with a prefix of the token', [`Proxy-Authorization: Bearer ${proxyToken.slice(0, -1)}`]],
    ['with the token and a suffix', [`Proxy-Authorization: Bearer ${proxyToken}x`]],
    ['with the token in uppercase', [`Proxy-Authorization: Bearer ${proxyToken.toUpperCase()}`]],
    ['with another scheme', [`Proxy-Authorization: Digest ${proxyToken}`]],
    ['with the token as a user with a password', [basic(`${proxyToken}:x`)]],
    ['with the token in Authorization', [`Authorization: Bearer ${proxyToken}`]],
    [
      'with the token in a header with an underscore',
      [`Proxy_Authorization: Bearer ${proxyToken}`],
    ],
    ['with an empty token', ['Proxy-Authorization: Bearer ']],
    [
      'with the token and then another',
      [`Proxy-Authorization: Bearer ${proxyToken}`, 'Proxy-Authorization: Bearer x'],
    ],
    [
      'with another token and then the right one',
      ['Proxy-Authorization: Bearer x', `Proxy-Authorization: Bearer ${proxyToken}`],
    ],
  ])('is refused %s', async (_how, headers) => {
    stage.recorder.take();
    const answer = await stage.send(headers, {}, stage.other);
    expect([400, 407]).toContain(answer?.status);
    expect(stage.recorder.take()).toBe('');
  });

  it('is refused for CONNECT', async () => {
    const port = Number(new URL(stage.other.proxyUrl).port);
    const { answers } = await converse({ ...stage.way('tls'), proxyPort: port }, Buffer.alloc(0));
    expect(answers[0]?.status).toBe(407);
  });

  it.each([
    ['as a bearer token', `Proxy-Authorization: Bearer ${proxyToken}`],
    ['as a password', basic(`agent:${proxyToken}`)],
    ['as a user name', basic(`${proxyToken}:`)],
  ])(
    'is accepted if it sends the token %s, and the token does not reach the upstream',
    async (_how, header) => {
      stage.recorder.take();
      expect((await stage.send([header], {}, stage.other))?.status).toBe(200);
      expect(stage.recorder.take()).not.toMatch(new RegExp(`proxy-auth|${proxyToken}`, 'i'));
    },
  );
});

describe('a second sidecar', () => {
  it('does not start with an enrolment token that was used', async () => {
    const folder = fs.mkdtempSync(join(tmpdir(), 'stolen-'));
    await expect(startSidecar(stage.configOf(folder), { log: silentLog })).rejects.toThrow(
      'not valid',
    );
    fs.rmSync(folder, { recursive: true, force: true });
  });

  it('cannot authenticate to the control plane as the first sidecar', async () => {
    const now = Math.floor(Date.now() / 1000);
    const stored = JSON.parse(fs.readFileSync(join(stage.dataDir, 'enrolment.json'), 'utf8')) as {
      signingKey: string;
    };
    const own = importPrivateKey(Buffer.from(stored.signingKey, 'base64'));
    const self = stage.other.identity.sidecarId;
    const first = stage.firstSidecar;
    const good = {
      iss: self,
      sub: self,
      aud: 'sallyport-control-plane',
      iat: now,
      exp: now + 60,
      jti: 'j',
    };
    const type = 'sallyport-sidecar+jwt';
    const ask = async (token: string) => {
      const url = `${stage.separate.origin}/api/v1/sidecars/credentials`;
      return (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status;
    };
    expect(await ask(signJws(good, type, own))).toBe(200);
    const bad = [
      signJws({ ...good, iss: first, sub: first }, type, own),
      signJws({ ...good, iss: first }, type, own),
      signJws({ ...good, sub: first }, type, own),
      signJws({ ...good, aud: 'gateway://agents' }, type, own),
      signJws({ ...good, iat: now - 600, exp: now - 540 }, type, own),
      signJws({ ...good, exp: now + 3600 }, type, own),
      signJws({ ...good, iat: now + 600, exp: now + 660 }, type, own),
      signJws(good, 'action-passport+jwt', own),
      signJws(good, type, generateSigningKey()),
      await stage.leaseOf(self),
      await stage.issue({ agent_id: stage.otherAgent }),
    ];
    for (const token of bad) expect(await ask(token)).toBe(401);
  });
});

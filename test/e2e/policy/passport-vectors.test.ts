import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signPassport } from '../../../shared/passport/issue.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import {
  claimsFor,
  type PresentedVector,
  presentedVectors,
} from '../../support/policy/passport-vectors.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { until } from '../../support/programs/processes.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { type AgentClient, agentClient } from '../../support/sidecar/agent-client.ts';
import { startUpstream, type Upstream } from '../../support/sidecar/upstream.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

/**
 * Presents the passport vectors to a live sidecar, whose clock runs and whose agent has fixed
 * capabilities. Cases within two seconds of a limit are tested only with the pure function and
 * through the API.
 */
const marginMs = 2_000;
const vectors = presentedVectors().filter(
  (vector) => vector.capabilities === undefined && !isAtTheEdge(vector),
);

function isAtTheEdge(vector: PresentedVector): boolean {
  const at = 1_800_000_000_000;
  const present = { tenantId: 'acme', agentId: '7', userId: 'alice', nowMs: at };
  const { nbf, exp } = claimsFor(vector, present);
  const clockSkewMs = 5_000;
  return (
    Math.abs(exp * 1000 - at) <= marginMs || Math.abs(nbf * 1000 - clockSkewMs - at) <= marginMs
  );
}

/**
 * The results at a sidecar that differ from those of the API: a sidecar has only the keys of its
 * own tenant.
 */
const elsewhere: Readonly<Record<string, string | undefined>> = {
  'a passport of another tenant is refused': 'passport.signature_invalid',
  'a tenant id is case-sensitive': 'passport.signature_invalid',
  // Not refused at a sidecar: the recorded user is the passport's user if the passport was issued
  // to the sidecar's own agent.
  'a passport issued for another user is refused': undefined,
};

let redis: TestRedis;
let upstream: Upstream;
let world: Separate;
let signer: TestServices;
let agent: AgentClient;

beforeAll(async () => {
  const database = await freshDatabase();
  redis = await startRedis();
  upstream = await startUpstream();
  world = await startSeparate({ databaseUrl: database.url, redisUrl: redis.url });
  signer = await testServices({ databaseUrl: database.url, masterKey: world.masterKey });
  agent = agentClient(world.proxyUrl);
  for (const resource of new Set(vectors.map(({ action }) => action.resource)))
    await bind(resource);
  const when = { all: [{ path: 'tool.name', operator: '!=', value: '' }] };
  const rules = [{ name: 'all', decision: 'allow', reason: 'test.allowed', when }];
  const rules_json = { id: 'all', version: 1, rules };
  await world.api('POST', '/v1/policies', { name: 'all', publish: true, rules_json });
  await until('a plain call passes', async () => (await call('payment:pay_1', {})).status === 200);
}, 120_000);
afterAll(async () => {
  await agent?.close();
  await signer?.close();
  await world?.close();
  await upstream?.close();
  await redis?.stop();
}, 60_000);

const nameOf = (resource: string) => `r${Buffer.from(resource).toString('hex').slice(0, 60)}`;

async function bind(resource: string): Promise<void> {
  const host = `127.0.0.1:${upstream.port}`;
  const path = `/${nameOf(resource)}`;
  const call = { protocol: 'http', host, method: 'POST', path, body: 'json' };
  const binding = { ...call, tool: 'mcp.payments.refund', resource };
  const { status, body } = await world.api(
    'PUT',
    `/v1/runtime/bindings/${nameOf(resource)}`,
    binding,
  );
  expect({ status, body }).toMatchObject({ status: 200 });
}

const call = (resource: string, args: object, headers?: Record<string, string>) =>
  agent.post(`http://127.0.0.1:${upstream.port}/${nameOf(resource)}`, args, headers);

async function present(vector: PresentedVector) {
  const who = { tenantId: 'default', agentId: world.agentId, userId: 'user_1' };
  const claims = claimsFor(vector, { ...who, nowMs: Date.now() });
  const create = { id: claims.tenant_id, name: claims.tenant_id };
  await signer.db.tenant.upsert({ where: { id: create.id }, update: {}, create });
  const key = await signer.signingKeys.active(claims.tenant_id, 'passport');
  const { resource, args } = vector.action;
  const headers = { 'action-passport': signPassport(claims, key) };
  if (vector.before === 'revoked') {
    await world.api('POST', '/v1/passports/revoke', { jti: claims.jti, reason: 'test' });
    await revocationHeld();
  }
  if (vector.before === 'used') await call(resource, args, headers);
  return call(resource, args, headers);
}

async function revocationHeld(): Promise<void> {
  await until('the sidecar holds the revocation', async () => {
    const { body } = await world.api('GET', '/v1/sidecars');
    const { sections, sidecars } = body as {
      sections: Record<string, number>;
      sidecars: readonly { report?: { versions: Record<string, number> } }[];
    };
    return sidecars[0]?.report?.versions.revocations === sections.revocations;
  });
}

describe('passport vectors, presented to a sidecar', () => {
  it.each(vectors)('have the expected result: $name', async (vector) => {
    const before = upstream.seen.length;
    const { status, body } = await present(vector);
    const performed = upstream.seen.length - before;
    const reason_code = vector.name in elsewhere ? elsewhere[vector.name] : vector.fails[0];
    if (reason_code === undefined) {
      expect({ status, performed }).toEqual({ status: 200, performed: 1 });
      return;
    }
    expect({ performed, body }).toMatchObject({
      performed: vector.before === 'used' ? 1 : 0,
      body: { decision: 'deny', reason_code },
    });
    expect(status).toBe(403);
  });

  it('include the required number of vectors', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(55);
  });
});

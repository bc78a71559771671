import type { JsonObject } from '../../../shared/base/json.ts';
import { type Case, type Cases, refusesBodies, succeeds, yields } from './case.ts';
import { fresh, type Stage } from './stage.ts';

type Renewal = { readonly passport: string } & Readonly<Record<string, unknown>>;
type MakeRenewal = (stage: Stage) => Promise<Renewal>;

const of = ({ agentId }: Stage, renewal: Renewal) => ({ agent_id: Number(agentId), ...renewal });

const renews = (status: number, reason: string, make: MakeRenewal): Case =>
  yields(status, reason, async (ask, stage) => ask({ body: of(stage, await make(stage)) }));

const issued: MakeRenewal = async (stage) => ({ passport: await stage.issue() });

const signed =
  (make: (stage: Stage) => object, forged = false): MakeRenewal =>
  async (stage) => ({ passport: await stage.signed(make(stage), forged) });

const fails = (reason: string, breakIt: (stage: Stage) => Promise<unknown>): Case =>
  renews(500, reason, async (stage) => {
    const renewal = await issued(stage);
    await breakIt(stage);
    return renewal;
  });

/**
 * Returns a passport with the hash of an approval of `brief`; the approval's grant is valid for one minute.
 */
async function approvedPassport(stage: Stage): Promise<{ passport: string; action: JsonObject }> {
  const action = { tool: 'brief', resource: fresh('r') };
  const id = await stage.approval('brief', action);
  const grant = { uses: 1, ttl_seconds: 60 };
  const { body } = await stage.decide(id, { action: 'approve', grant });
  return { passport: await carrying(stage, String(body?.event_hash)), action };
}

async function carrying(stage: Stage, approval_hash: string): Promise<string> {
  const { body } = await stage.post('/passports/issue', stage.passportBody({ approval_hash }));
  return String(body?.passport);
}

const hashOf = (passport: string): string =>
  JSON.parse(Buffer.from(passport.split('.')[1] ?? '', 'base64url').toString()).approval_hash;

const renewal: readonly Case[] = [
  renews(201, '', issued),
  ...refusesBodies({ agent_id: 1 }, { passport: 'x' }),
  renews(400, 'passport.ttl_invalid', async (stage) => ({
    ...(await issued(stage)),
    ttl_seconds: 1,
  })),
  renews(401, 'passport.malformed', async () => ({ passport: 'x' })),
  renews(
    401,
    'passport.signature_invalid',
    signed(() => ({}), true),
  ),
  renews(
    401,
    'passport.expired',
    signed(({ services }) => ({ nowMs: services.clock.now() - 3_600_000 })),
  ),
  renews(
    401,
    'passport.not_yet_valid',
    signed(({ services }) => ({ nowMs: services.clock.now() + 600_000 })),
  ),
  renews(
    403,
    'passport.tenant_mismatch',
    signed(() => ({ tenantId: 'other' })),
  ),
  renews(
    403,
    'passport.agent_mismatch',
    signed(() => ({ agentId: '999999' })),
  ),
  renews(
    403,
    'passport.not_renewable',
    signed(() => ({})),
  ),
  renews(403, 'passport.revoked', async (stage) => {
    const { body } = await stage.post('/passports/issue', stage.passportBody());
    await stage.post('/passports/revoke', { jti: body?.jti });
    return { passport: String(body?.passport) };
  }),
  yields(403, 'passport.replay_detected', async (ask, stage) => {
    const body = of(stage, await issued(stage));
    await ask({ body });
    return ask({ body });
  }),
  renews(403, 'passport.tool_not_allowed', async (stage) => {
    const agent = { name: fresh('narrowed'), capabilities: ['pay'] };
    const { body } = await stage.post('/agents/register', agent);
    const agent_id = Number(body?.agent_id);
    const passport = await stage.issue({ agent_id, requested_tools: ['pay'] });
    await stage.post('/agents/register', { ...agent, capabilities: ['mail'] });
    return { agent_id, passport };
  }),
  renews(403, 'approval.invalid', async (stage) => ({
    passport: await carrying(stage, `sha256:${'0'.repeat(64)}`),
  })),
  renews(403, 'approval.used', async (stage) => {
    const { passport, action } = await approvedPassport(stage);
    await stage.post('/actions/preflight', stage.action({ ...action, passport }));
    return { passport: await carrying(stage, hashOf(passport)) };
  }),
  renews(403, 'approval.expired', async (stage) => {
    const { passport } = await approvedPassport(stage);
    stage.services.clock.advance(61_000);
    return { passport };
  }),
  renews(403, 'agent.disabled', async (stage) => ({
    agent_id: await stage.disabledAgent(),
    ...(await issued(stage)),
  })),
  yields(403, 'agent.mismatch', async (ask, stage) =>
    ask({ key: await stage.otherAgentsKey(), body: of(stage, await issued(stage)) }),
  ),
  renews(404, 'agent.not_found', async () => ({ agent_id: 2_147_483_647, passport: 'x' })),
  fails('agent.load_failed', ({ faults }) => faults.withoutTable('agent')),
  fails('policy.load_failed', ({ faults }) => faults.withoutTable('policy')),
  fails('passport.sign_failed', (stage) => stage.sealSigningKeyElsewhere()),
  fails('passport.persist_failed', ({ faults }) => faults.unwritable('passport')),
  fails('evidence.seal_failed', ({ faults }) => faults.unwritable('evidence_row')),
  yields(503, 'passport.claim_unavailable', async (ask, stage) => {
    const body = of(stage, await issued(stage));
    return ask({ api: await stage.forgetful(), body });
  }),
];

export const renewalCases: Cases = {
  'POST /v1/agents/renew': renewal,
  'POST /v1/agents/refresh-passport': [
    ...renewal,
    succeeds(201, async (ask, stage) => {
      const body = of(stage, await issued(stage));
      stage.services.clock.advance(301_000);
      return ask({ body });
    }),
  ],
};

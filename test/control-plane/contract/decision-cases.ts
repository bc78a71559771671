import {
  type Case,
  type Cases,
  failsOnPolicy,
  failsToWrite,
  refusesBodies,
  succeeds,
  yields,
} from './case.ts';
import { fresh, type Stage } from './stage.ts';

type MakePassport = (stage: Stage) => Promise<string> | string;

/** Sends an action with a passport, and expects a refusal with this reason. */
const refusesPassport = (status: number, reason: string, make: MakePassport): Case =>
  yields(status, reason, async (ask, stage) =>
    ask({ body: stage.action({ passport: await make(stage) }) }),
  );

const minutesAgo = ({ services }: Stage, minutes: number) => ({
  nowMs: services.clock.now() - minutes * 60_000,
});

const revoked: MakePassport = async (stage) => {
  const { body } = await stage.post('/passports/issue', stage.passportBody());
  await stage.post('/passports/revoke', { jti: body?.jti });
  return String(body?.passport);
};

const used: MakePassport = async (stage) => {
  const passport = await stage.issue();
  await stage.post('/actions/preflight', stage.action({ passport }));
  return passport;
};

/** The cases of preflight, of its alias and of execute, which return the same decisions. */
const judged: readonly Case[] = [
  yields(200, 'test.allow', (ask, { action }) => ask({ body: action() })),
  yields(200, 'test.deny', (ask, { action }) => ask({ body: action({ tool: 'shell' }) })),
  yields(200, 'test.require_approval', (ask, { action }) =>
    ask({ body: action({ tool: 'refund' }) }),
  ),
  yields(200, 'test.allow', async (ask, stage) =>
    ask({ body: stage.action({ passport: await stage.issue() }) }),
  ),
  ...refusesBodies({ tool: 'pay' }, '{', '"pay"'),
  yields(400, 'args.idempotency_conflict', async (ask, { action }) => {
    const idempotency_key = fresh('once');
    await ask({ body: action({ idempotency_key }) });
    return ask({ body: action({ idempotency_key, goal: 'another' }) });
  }),
  yields(401, 'passport.missing', (ask, { action }) => ask({ body: action({ mode: 'strict' }) })),
  refusesPassport(401, 'passport.malformed', () => 'x'),
  refusesPassport(401, 'passport.signature_invalid', ({ signed }) => signed({}, true)),
  refusesPassport(401, 'passport.expired', (stage) => stage.signed(minutesAgo(stage, 10))),
  refusesPassport(401, 'passport.not_yet_valid', (stage) => stage.signed(minutesAgo(stage, -10))),
  refusesPassport(401, 'passport.audience_mismatch', ({ signed }) => signed({ audience: 'x' })),
  refusesPassport(403, 'passport.revoked', revoked),
  refusesPassport(403, 'passport.replay_detected', used),
  refusesPassport(403, 'passport.tenant_mismatch', ({ signed }) => signed({ tenantId: 'other' })),
  refusesPassport(403, 'passport.agent_mismatch', ({ signed }) => signed({ agentId: '999999' })),
  refusesPassport(403, 'passport.user_mismatch', ({ signed }) => signed({ userId: 'mallory' })),
  yields(403, 'agent.mismatch', async (ask, { action, otherAgentsKey }) =>
    ask({ key: await otherAgentsKey(), body: action() }),
  ),
  failsToWrite('evidence_row', 'evidence.seal_failed', (ask, { action }) =>
    ask({ body: action() }),
  ),
  failsOnPolicy((ask, { action }) => ask({ body: action() })),
  yields(503, 'passport.claim_unavailable', async (ask, stage) => {
    const passport = await stage.issue();
    return ask({ api: await stage.forgetful(), body: stage.action({ passport }) });
  }),
];

/** In mode monitor, a hard refusal is reported as a decision with status 200. */
const watched: readonly Case[] = [
  yields(200, 'passport.replay_detected', async (ask, stage) =>
    ask({ body: stage.action({ passport: await used(stage), mode: 'monitor' }) }),
  ),
];

const jti = 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d';

export const decisionCases: Cases = {
  'POST /v1/actions/preflight': [...judged, ...watched],
  'POST /v1/actions/decision': [...judged, ...watched],
  'POST /v1/actions/execute': judged,
  'POST /v1/passports/verify': [
    succeeds(200, async (ask, { issue }) => ask({ body: { passport: await issue() } })),
    succeeds(200, (ask) => ask({ body: { passport: 'x' } })),
    ...refusesBodies({}),
  ],
  'POST /v1/passports/revoke': [
    succeeds(200, (ask) => ask({ body: { jti, reason: 'lost' } })),
    ...refusesBodies({ reason: 'lost' }),
    yields(403, 'agent.mismatch', async (ask, stage) => {
      const { body } = await stage.post('/passports/issue', stage.passportBody());
      return ask({ key: await stage.otherAgentsKey(), body: { jti: body?.jti } });
    }),
  ],
  'GET /v1/passports/jwks': [succeeds(200, (ask) => ask({ key: 'none' }))],
};

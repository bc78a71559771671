import type { Answer } from '../../support/control-plane/api.ts';
import { type Case, type Cases, failsOnPolicy, refusesBodies, succeeds, yields } from './case.ts';
import { fresh, type Given, type Stage } from './stage.ts';

const broken = { id: 'broken', version: 1, rules: [{ name: 'x', decision: 'maybe', when: [] }] };
const noId = 2_147_483_647;
const everything = ['?lifecycle=draft', '?lifecycle=published', ''];

/** Returns a function that creates a policy, as a draft or published, and sends the request for it. */
const of =
  (
    publish: boolean,
    given: (stage: Stage) => Given | Promise<Given> = () => ({}),
  ): Case['answer'] =>
  async (ask, stage) => {
    const id = await stage.policy(stage.definition(), { publish });
    return ask({ params: { id }, ...(await given(stage)) });
  };

/** A caller that may write policies but not publish them. */
const developer = async ({ key }: Stage) => ({ key: await key({ role: 'developer' }) });

/** A tenant that has as many policies as its plan allows, including a published one. */
async function atCap(stage: Stage): Promise<{ readonly key: string; readonly id: number }> {
  const { id: tenantId, key } = await stage.tenant('free');
  const id = await stage.policy(stage.definition(), { publish: true, key });
  const data = Array.from({ length: 9 }, () => fresh('old')).map((name) => ({
    tenantId,
    name,
    definitionId: name,
    version: 1,
    definition: '{}',
    policyHash: 'x',
    createdBy: 'test',
  }));
  await stage.services.db.policy.createMany({ data });
  return { key, id };
}

const creation = (stage: Stage, more: object = {}) => ({
  name: fresh('created'),
  rules_json: stage.definition(),
  ...more,
});

async function archived(stage: Stage): Promise<number> {
  const id = await stage.policy(stage.definition(), { publish: true });
  await stage.send({ method: 'DELETE', path: '/v1/policies/{id}' }, { params: { id } });
  return id;
}

const replayed = { context: { tool: { name: 'pay' }, args: { amount: 1 } } };

export const policyCases: Cases = {
  'GET /v1/policies': everything.map((query) => succeeds(200, (ask) => ask({ query }))),
  'POST /v1/policies': [
    succeeds(201, (ask, stage) => ask({ body: creation(stage) })),
    succeeds(201, (ask, stage) => ask({ body: creation(stage, { publish: true }) })),
    ...refusesBodies({ name: 'x' }, { name: 'x'.repeat(101), rules_json: broken }),
    yields(400, 'policy.invalid', (ask) => ask({ body: { name: 'x', rules_json: broken } })),
    yields(402, 'plan.cap_reached', async (ask, stage) =>
      ask({ key: (await atCap(stage)).key, body: creation(stage) }),
    ),
    yields(403, 'auth.insufficient_permission', async (ask, stage) =>
      ask({ ...(await developer(stage)), body: creation(stage, { publish: true }) }),
    ),
  ],
  'POST /v1/policies/replay': [
    succeeds(200, (ask, { definition }) => ask({ body: { policy: definition(), ...replayed } })),
    succeeds(200, (ask, { definition }) =>
      ask({ body: { policy: definition(), ...replayed, expected: { decision: 'deny' } } }),
    ),
    ...refusesBodies(replayed),
    yields(400, 'policy.invalid', (ask) => ask({ body: { policy: broken, ...replayed } })),
  ],
  'GET /v1/policies/{id}': [
    succeeds(200, of(false)),
    succeeds(200, of(true)),
    yields(404, 'policy.not_found', (ask) => ask({ params: { id: noId } })),
  ],
  'PUT /v1/policies/{id}': [
    yields(
      409,
      'policy.changed',
      of(false, () => ({
        body: { lifecycle: 'published', expected_policy_hash: `sha256:${'0'.repeat(64)}` },
      })),
    ),
    succeeds(
      200,
      of(false, () => ({ body: { name: fresh('renamed') } })),
    ),
    succeeds(
      200,
      of(false, (stage) => ({ body: { rules_json: stage.definition() } })),
    ),
    succeeds(
      200,
      of(false, () => ({ body: { lifecycle: 'published' } })),
    ),
    ...refusesBodies({}, { lifecycle: 'retired' }),
    yields(
      400,
      'policy.invalid',
      of(false, () => ({ body: { rules_json: broken } })),
    ),
    yields(
      403,
      'auth.insufficient_permission',
      of(false, async (stage) => ({
        ...(await developer(stage)),
        body: { lifecycle: 'published' },
      })),
    ),
    yields(404, 'policy.not_found', (ask) => ask({ params: { id: noId }, body: { name: 'x' } })),
    yields(
      409,
      'policy.lifecycle_invalid',
      of(true, () => ({ body: { name: 'x' } })),
    ),
  ],
  'DELETE /v1/policies/{id}': [
    succeeds(200, of(false)),
    succeeds(200, of(true)),
    yields(403, 'auth.insufficient_permission', of(true, developer)),
    yields(404, 'policy.not_found', (ask) => ask({ params: { id: noId } })),
    yields(409, 'policy.lifecycle_invalid', async (ask, stage) =>
      ask({ params: { id: await archived(stage) } }),
    ),
  ],
  'POST /v1/policies/{id}/versions': [
    succeeds(201, of(true)),
    succeeds(201, async (ask, stage) => ask({ params: { id: await archived(stage) } })),
    yields(402, 'plan.cap_reached', async (ask, stage) => {
      const { key, id } = await atCap(stage);
      return ask({ key, params: { id } });
    }),
    yields(404, 'policy.not_found', (ask) => ask({ params: { id: noId } })),
    yields(409, 'policy.lifecycle_invalid', of(false)),
  ],
  'GET /v1/policies/lint': everything.map((query) => succeeds(200, (ask) => ask({ query }))),
  'POST /v1/policies/lint': [
    succeeds(200, (ask, { definition }) => ask({ body: { policies: [definition()] } })),
    succeeds(200, (ask, { definition }) =>
      ask({ body: { policies: [definition()], with_published: true } }),
    ),
    ...refusesBodies({}, { policies: [] }),
    yields(400, 'policy.invalid', (ask) => ask({ body: { policies: [broken] } })),
  ],
  'POST /v1/policies/install-pack': [
    succeeds(201, installed),
    succeeds(200, async (ask, stage) => {
      const { key } = await stage.tenant('team');
      const body = { pack: 'payments' };
      await ask({ key, body });
      return ask({ key, body });
    }),
    ...refusesBodies({}, { pack: 'payments', mode: 'lax' }),
    yields(402, 'plan.cap_reached', async (ask, stage) =>
      ask({ key: (await atCap(stage)).key, body: { pack: 'payments' } }),
    ),
    yields(403, 'auth.insufficient_permission', async (ask, stage) =>
      ask({ ...(await developer(stage)), body: { pack: 'payments', publish: true } }),
    ),
    yields(404, 'policy.pack_not_found', (ask) => ask({ body: { pack: 'nobodys' } })),
  ],
  'POST /v1/policies/backtest': [
    succeeds(200, async (ask, stage) => {
      await stage.post('/actions/preflight', stage.action());
      return ask({ body: { policy: stage.definition() } });
    }),
    ...refusesBodies({}),
    yields(400, 'policy.invalid', (ask) => ask({ body: { policy: broken } })),
    yields(400, 'evidence.cursor_invalid', (ask, { definition }) =>
      ask({ body: { policy: definition(), cursor: 'nobodys' } }),
    ),
    failsOnPolicy((ask, { definition }) => ask({ body: { policy: definition() } })),
  ],
  'POST /v1/simulate': [
    succeeds(200, (ask, { action }) => ask({ body: action() })),
    succeeds(200, (ask, stage) => {
      const actions = [stage.action(), stage.action({ tool: 'shell' })];
      return ask({ body: { actions, policies: [stage.definition()], beside: true } });
    }),
    ...refusesBodies({}, { actions: [] }),
    yields(400, 'policy.invalid', (ask, { action }) =>
      ask({ body: { actions: [action()], policies: [broken] } }),
    ),
    yields(403, 'agent.mismatch', async (ask, { action, otherAgentsKey }) =>
      ask({ key: await otherAgentsKey(), body: action() }),
    ),
    failsOnPolicy((ask, { action }) => ask({ body: action() })),
  ],
};

async function installed(ask: (given: Given) => Promise<Answer>, stage: Stage): Promise<Answer> {
  const { key } = await stage.tenant('team');
  return ask({ key, body: { pack: 'payments', publish: true } });
}

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { compilePolicies } from '../../../shared/policy/engine/compile.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type { PolicyDefinition } from '../../../shared/policy/language/definition.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { rule } from '../../support/control-plane/gateway.ts';
import { publish } from '../../support/policy/policy-arbitraries.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

let stage: Awaited<ReturnType<typeof preflightStage>>;
let api: TestApi;
let key: string;
beforeAll(async () => {
  stage = await preflightStage();
  api = await startApi(evidenceRoutes(stage.gateway.services), stage.gateway.services);
  key = await api.key();
}, 60_000);
afterAll(async () => {
  await api?.close();
  await stage?.gateway.close();
});

const get = (id: string, query = '', as = key) =>
  api.send('GET', `/api/v1/evidence/events/${id}/fixture${query}`, { key: as });

interface CaseFile {
  readonly cases: readonly [
    {
      readonly name: string;
      readonly context: PolicyContext;
      readonly expect: {
        readonly decision: string;
        readonly reason_code?: string;
        readonly matched_rules?: readonly string[];
      };
    },
  ];
}

const policy = {
  id: 'p1',
  version: 1,
  rules: [
    rule('allow', 'pay'),
    rule('deny', 'shell'),
    rule('require_approval', 'refund'),
    rule('warn', 'mail'),
  ],
} as unknown as PolicyDefinition;

describe('the export of a stored decision as a policy case', () => {
  it.each(['pay', 'shell', 'refund', 'mail', 'unheard.of'])(
    'states the same outcome for the tool %s as a new evaluation of the published policies',
    async (tool) => {
      const { evidence_event_id: id } = await stage.ask({ tool });
      const answer = await get(String(id));
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toBe('application/yaml');
      const { cases } = parse(answer.text) as CaseFile;
      const [{ context, expect: expected, name }] = cases;
      expect(name).toContain(String(id));
      const outcome = compilePolicies([publish(1, policy)]).evaluate(context);
      expect(expected).toEqual({
        decision: outcome.decision,
        reason_code: outcome.reasonCode,
        matched_rules: outcome.matchedRules,
      });
    },
  );

  it('contains the context and placeholders for arguments, and marks the placeholders', async () => {
    const { evidence_event_id: id } = await stage.ask({
      resource: 'payment:pay_9',
      args: { amount: 731_947, to: ['secret@example.com'], note: null, deep: { flag: true } },
      goal: 'Refund it: "now"',
    });
    const { text } = await get(String(id));
    const [{ context }] = (parse(text) as CaseFile).cases;
    expect(context).toEqual({
      tenant: { id: 'default' },
      agent: { id: stage.agentId, name: 'bot', goal: 'Refund it: "now"' },
      user: { id: 'user-1' },
      tool: { name: 'pay' },
      args: { amount: 0, to: [''], note: null, deep: { flag: false } },
      resource: { id: 'pay_9', type: 'payment' },
      environment: 'prod',
    });
    expect(text).toMatch(/amount: 0 # fill in: a number/);
    expect(text).toMatch(/flag: false # fill in: a boolean/);
    expect(text).toContain('user.email');
    expect(text).not.toMatch(/731947|secret@/);
  });

  it('can be requested as JSON', async () => {
    const { evidence_event_id: id } = await stage.ask();
    const yaml = await get(String(id), '?format=yaml');
    const json = await get(String(id), '?format=json');
    expect(json.headers.get('content-type')).toContain('application/json');
    expect(json.headers.get('content-disposition')).toBe(`attachment; filename="${id}.cases.json"`);
    expect(json.body).toEqual(parse(yaml.text) as JsonObject);
  });

  it('states that policies were not evaluated if the decision was made without them', async () => {
    const { body } = await stage.gateway.post('/v1/actions/preflight', {
      ...stage.action(),
      passport: 'nonsense',
    });
    const { text } = await get(String(body?.evidence_event_id));
    expect(text).toContain('Policies were not evaluated');
    const [{ expect: expected }] = (parse(text) as CaseFile).cases;
    expect(expected).toMatchObject({ decision: 'deny', reason_code: 'passport.malformed' });
  });

  it('contains exactly one case, whatever names an agent sends', async () => {
    const { evidence_event_id: id } = await stage.ask({
      resource: 'x: y\n  - name: "injected"\n#',
      goal: '\ncases: []\n--- # ',
      args: { 'a: b # c': 1, '<<': { x: 1 }, '*ref': 'v', '"': 2 },
    });
    const { text } = await get(String(id));
    const { cases } = parse(text) as CaseFile;
    expect(cases).toHaveLength(1);
    expect(cases[0].context.resource).toEqual({ type: 'x', id: ' y\n  - name: "injected"\n#' });
    expect(cases[0].context.agent?.goal).toBe('\ncases: []\n--- # ');
    expect(cases[0].context.args).toEqual({ 'a: b # c': 0, '<<': { x: 0 }, '*ref': '', '"': 0 });
  });
});

describe('the export of a policy case', () => {
  it.each(['ev_00000000000000000000000000000000', 'nonsense', '1'])(
    'refuses an unknown event: %s',
    async (id) => {
      const answer = await get(id);
      expect([answer.status, answer.body?.reason_code]).toEqual([404, 'evidence.event_not_found']);
    },
  );

  it('refuses an event that is not a decision', async () => {
    const row = await stage.gateway.services.db.evidenceRow.findFirstOrThrow({
      where: { tenantId: 'default', type: 'policy.published' },
    });
    const answer = await get(row.eventId);
    expect([answer.status, answer.body?.reason_code]).toEqual([409, 'evidence.not_a_decision']);
  });

  it('refuses another tenant’s decision, and an unknown format', async () => {
    const { evidence_event_id: id } = await stage.ask();
    const stranger = await api.key({ tenantId: 'other' });
    expect((await get(String(id), '', stranger)).status).toBe(404);
    expect((await get(String(id), '?format=xml')).body?.reason_code).toBe('request.invalid');
  });
});

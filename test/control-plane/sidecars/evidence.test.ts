import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { decisionRecord } from '../../../proxy/records/call-records.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import type { Verdict } from '../../../shared/vocabulary/verdict.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
  spoolStart,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

const refusal: Verdict = {
  decision: 'deny',
  reasonCode: 'policy.no_match',
  summary: '',
  mode: 'enforce',
  enforced: true,
  matchedRules: [],
  observed: [],
  riskTier: 'medium',
  nextSteps: [],
  effects: [],
};

let gateway: Gateway;
let agentId: string;
let sidecar: EnrolledSidecar;
beforeAll(async () => {
  gateway = await startGateway();
  agentId = await gateway.agent('bot');
});
beforeEach(async () => {
  sidecar = await enrolledSidecar(gateway, agentId);
});
afterAll(() => gateway.close());

const rowsOf = (type: string) =>
  gateway.services.db.evidenceRow.findMany({
    where: { tenantId: 'default', source: `sidecar:${sidecar.id}`, type },
    orderBy: { position: 'asc' },
  });

const idOf = ({ canonical }: { readonly canonical: string }) => JSON.parse(canonical).id;

const incidents = (type: string) =>
  gateway.services.db.evidenceRow.findMany({ where: { chainId: `sidecar:${sidecar.id}`, type } });

async function upload(records = [sidecar.record()], after = spoolStart) {
  const { jws } = sidecar.segment(records, after);
  return sidecar.upload(jws, records);
}

describe('uploading evidence', () => {
  it('seals the records in order and acknowledges the last record', async () => {
    const records = [1, 2, 3].map(() => sidecar.record());
    const { last } = sidecar.segment(records);
    expect(await upload(records)).toEqual(last);
    const rows = await rowsOf('decision');
    expect(rows.map(({ eventId }) => eventId)).toEqual(
      records.map(({ event }) => `sidecar:${sidecar.id}/${event.id}`),
    );
  });

  it('changes nothing when it is repeated', async () => {
    const records = [sidecar.record(), sidecar.record()];
    const once = await upload(records);
    expect(await upload(records)).toEqual(once);
    expect(await rowsOf('decision')).toHaveLength(2);
  });

  it('stores the salt separately and encrypted', async () => {
    const record = sidecar.record({}, 'c2FsdHNhbHRzYWx0c2FsdA==');
    await upload([record]);
    const [row] = await rowsOf('decision');
    expect(row?.canonical).not.toContain('c2FsdHNhbHR');
    const where = {
      tenantId_eventId: {
        tenantId: 'default',
        eventId: `sidecar:${sidecar.id}/${record.event.id}`,
      },
    };
    const salt = await gateway.services.db.evidenceSalt.findUniqueOrThrow({ where });
    expect(salt.sealed).not.toContain('c2FsdHNhbHR');
  });

  it('with a gap in the record numbers reports the gap once and seals the records', async () => {
    await upload();
    const records = [sidecar.record()];
    const after = { record: 7, hash: 'ab'.repeat(32) };
    await upload(records, after);
    await upload(records, after);
    expect(await rowsOf('decision')).toHaveLength(2);
    const gaps = await incidents('sidecar.evidence_gap');
    expect(gaps).toHaveLength(1);
    expect(JSON.parse(gaps[0]?.canonical ?? '').data).toMatchObject({
      acked_record: 1,
      next_record: 8,
    });
  });

  it('with consecutive records reports no gap', async () => {
    const first = [sidecar.record()];
    const { last } = sidecar.segment(first);
    await upload(first);
    await upload([sidecar.record()], last);
    expect(await incidents('sidecar.evidence_gap')).toEqual([]);
  });
});

describe('a record that a sidecar uploads', () => {
  it.each([
    ['an agent that is not the sidecar’s', { agent_id: '999' }],
    ['no agent', { agent_id: undefined }],
    ['the chain of an agent that is not the sidecar’s', { chain_id: 'agent:999' }],
    ['the control plane', { source: 'control-plane' }],
    ['a sidecar other than the uploading sidecar', { source: 'sidecar:sc_other' }],
    ['a user that is not the sidecar’s', { user_id: 'ceo' }],
    ['the user of an unknown passport', { user_id: 'ceo', data: { passport_jti: 'pp_1' } }],
    ['in acted_for a user that is not the sidecar’s', { data: { acted_for: 'ceo' } }],
    [
      'in acted_for a user that is not the sidecar’s, with a lease',
      { data: { acted_for: 'ceo', passport_jti: 'ls_1.4' } },
    ],
    ['a wildcard in acted_for', { data: { acted_for: '*', passport_jti: 'pp_1' } }],
    ['an object in acted_for', { data: { acted_for: { id: 'ceo' } } }],
    ['an environment that is not the sidecar’s', { data: { environment: 'dev' } }],
    ['a wildcard as its user', { user_id: '*', data: { passport_jti: 'pp_1' } }],
    ['the type approval.decided', { type: 'approval.decided' }],
    ['the type passport.issued', { type: 'passport.issued' }],
    ['the type policy.published', { type: 'policy.published' }],
  ])('is quarantined once if it names %s; the other records are sealed', async (_who, more) => {
    const stranger = sidecar.record(more as never, 'c2FsdA==');
    const records = [sidecar.record(), stranger, sidecar.record()];
    for (let tries = 0; tries < 2; tries++) await upload(records);
    const own = records.filter((record) => record !== stranger).map(({ event }) => event.id);
    expect((await rowsOf('decision')).map(idOf)).toEqual(own);
    const [aside, ...others] = await incidents('sidecar.evidence_put_aside');
    expect(others).toEqual([]);
    const { agent_id, data, reason_code } = JSON.parse(aside?.canonical ?? '');
    expect({ agent_id, reason_code }).toEqual({
      agent_id: agentId,
      reason_code: 'evidence.event_invalid',
    });
    // The stored event is complete; only the salt of its digest is missing.
    expect(JSON.parse(data.text)).toEqual(JSON.parse(canonicalJson({ event: stranger.event })));
    expect(data).toMatchObject({ record: 2, whole: true, problem: expect.any(String) });
    expect(aside?.canonical).not.toContain('c2FsdA');
  });

  it('may name a user that is not the sidecar’s if the agent presented a passport of this user', async () => {
    const { jti } = await gateway.owner.call(issuePassport, {
      body: {
        tenant_id: 'default',
        agent_id: agentId,
        user_id: 'ceo',
        goal: '',
        allowed_tools: ['**'],
        risk_tier: 'low',
        policy_id: 'p',
        audience: `sidecar://${sidecar.id}`,
        ttl_seconds: 60,
      },
    });
    await upload([sidecar.record({ user_id: 'ceo', data: { passport_jti: jti } })]);
    expect(await rowsOf('decision')).toHaveLength(1);
    const acting = { data: { acted_for: 'ceo', environment: 'staging', passport_jti: jti } };
    await upload([sidecar.record(acting)]);
    expect(await rowsOf('decision')).toHaveLength(2);
    // A passport of one user is not valid for another.
    await upload([sidecar.record({ data: { acted_for: 'cfo', passport_jti: jti } })]);
    expect(await rowsOf('decision')).toHaveLength(2);
  });
});

describe('a segment of evidence', () => {
  it.each([
    ['signed with an unknown key', () => ({ key: generateSigningKey() })],
    ['signed for a different sidecar', () => ({ sidecar: 'sc_other' })],
  ])('is refused if it is %s', async (_what, changes) => {
    const records = [sidecar.record()];
    const { jws } = sidecar.segment(records, spoolStart, changes());
    const error = await refusalOf(sidecar.upload(jws, records));
    expect(error.code).toBe('evidence.event_invalid');
    expect(await rowsOf('decision')).toEqual([]);
  });

  it('is refused if a record was changed, added, removed or moved', async () => {
    const records = [sidecar.record(), sidecar.record()];
    const { jws } = sidecar.segment(records);
    const [one, two] = records as [(typeof records)[0], (typeof records)[0]];
    const changed = { ...two, event: { ...two.event, decision: 'deny' } };
    for (const sent of [[one, changed], [one, two, sidecar.record()], [one], [two, one]]) {
      const error = await refusalOf(sidecar.upload(jws, sent));
      expect(error.code).toBe('evidence.event_invalid');
    }
    expect(await rowsOf('decision')).toEqual([]);
  });

  it.each([
    ['with a malformed id', { id: 'ev_short' }],
    ['with an invalid time', { occurred_at: 'yesterday' }],
    ['with an unknown member', { unknown: 1 }],
    ['of the year 0', { occurred_at: '0000-01-01T00:00:00.000Z' }],
  ])(
    'with a record %s is sealed without that record, which is quarantined',
    async (_what, more) => {
      await upload([sidecar.record(more), sidecar.record()]);
      expect(await rowsOf('decision')).toHaveLength(1);
      expect(await incidents('sidecar.evidence_put_aside')).toHaveLength(1);
    },
  );
});

describe('a record of a decision on unusual input', () => {
  const args = JSON.parse('{"a\\u0000b": 1, "__proto__": 2}');
  it.each([
    ['with argument names that the API refuses', { args }],
    ['with a very long tool name', { tool: `mcp.x.${'t'.repeat(5_000)}\0` }],
    ['with a very long resource', { resource: `/${'r'.repeat(20_000)}\0` }],
  ])('%s is accepted, and so are later records', async (_what, more) => {
    const { clock } = gateway.services;
    const action = { tool: 'pay', resource: 'r', args: {}, ...more };
    const identity = { ...sidecar.enrolment.identity, agentId, userId: 'user-1' };
    const record = decisionRecord(
      {
        action: { ...action, tenantId: 'default', agentId, userId: 'user-1' },
        verdict: refusal,
        facts: { tool: action.tool, resource: action.resource, host: 'h', method: 'POST' },
        usageRun: 'run_1',
      },
      { identity: { ...identity, sidecarId: sidecar.id }, clock },
    );
    // The spool stores the canonical text, so the record is parsed from such a text.
    const spooled = JSON.parse(canonicalJson(record)) as typeof record;
    await upload([spooled, sidecar.record()]);
    expect(await rowsOf('decision')).toHaveLength(2);
  });
});

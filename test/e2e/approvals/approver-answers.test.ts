import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

/** Returns a version of a policy that requires an approval by this role for amounts above 1000. */
function gated(version: number, minRole: string) {
  const when = {
    all: [
      { path: 'tool.name', operator: '==', value: 'bank.pay' },
      { path: 'args.amount', operator: '>', value: 1000 },
    ],
  };
  const approval = { min_role: minRole };
  const rule = { name: 'large', decision: 'require_approval', reason: 'pay.large', approval, when };
  return { id: 'gated', version, rules: [rule] };
}

let bench: FaultBench;
beforeAll(async () => {
  bench = await startFaultBench({ SALLYPORT_HOLD_MS: '0' });
  await publish(1, 'approver');
  await until('the gate is in force', async () => (await bench.pay(1000.5)).status === 202);
}, 180_000);
afterAll(() => bench?.close());

const publish = (version: number, minRole: string) =>
  bench.separate.api('POST', '/v1/policies', {
    name: 'gated',
    publish: true,
    rules_json: gated(version, minRole),
  });

const decide = (id: string, body: object, key?: string) =>
  bench.separate.api('POST', `/v1/approvals/${id}/decide`, body, key);

/** Makes a call; returns the response that the agent gets, which is 202 while an approval is pending. */
async function call(amount: number) {
  const answer = await bench.pay(amount);
  return { status: answer.status, body: answer.body };
}

async function ask(amount: number): Promise<string> {
  const { status, body } = await call(amount);
  expect([status, body.reason_code]).toEqual([202, 'approval.pending']);
  return String(body.approval_request_id);
}

/** Returns the state of an approval as the agent reads it. */
async function standing(id: string) {
  const path = `http://sallyport.internal/approvals/${id}`;
  const headers = { host: 'sallyport.internal' };
  const sent = httpRequest(bench.separate.proxyUrl, { path, headers }).end();
  const [response] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}

const stands = (id: string, status: string) =>
  until(`approval ${id} is ${status}`, async () => (await standing(id)).status === status);

describe('the comment of an approver', () => {
  const comment =
    'Too much: 900 at most.\nMail jo@acme.example, the key is sk_live_51Habcdefgh12345678.';
  const told = 'Too much: 900 at most.\nMail [redacted:email], the key is [redacted:secret].';

  it('is returned to the agent, redacted, as a data field of the refusal, with the next step', async () => {
    const id = await ask(2001);
    await decide(id, { action: 'deny', comment });
    await stands(id, 'denied');
    const { status, body } = await call(2001);
    expect(status).toBe(403);
    expect(body).toMatchObject({
      decision: 'deny',
      reason_code: 'approval.denied',
      approval_request_id: id,
      details: { approver_comment: told },
    });
    expect(body.error).not.toContain('900');
    expect((body.next_steps as string[]).join(' ')).toMatch(/human denied.*approver_comment/);
    expect(JSON.stringify(body)).not.toContain('acme.example');
  });

  it('is the only text of the approver in the approval at the sidecar’s internal host', async () => {
    const id = await ask(2002);
    await decide(id, { action: 'deny', comment });
    await stands(id, 'denied');
    const view = await standing(id);
    expect(Object.keys(view).sort()).toEqual([
      'details',
      'expires_at',
      'id',
      'next_steps',
      'status',
    ]);
    expect(view.details).toEqual({ approver_comment: told });
  });

  it('is truncated at its maximum length', async () => {
    const id = await ask(2003);
    await decide(id, { action: 'deny', comment: 'no way '.repeat(500) });
    await stands(id, 'denied');
    const { details } = (await call(2003)).body as { details: { approver_comment: string } };
    expect(details.approver_comment.length).toBeLessThanOrEqual(1_010);
    expect(details.approver_comment).toMatch(/\[cut\]$/);
  });

  it('contains the approver’s question while the agent waits, and is absent after the approval', async () => {
    const id = await ask(2004);
    await decide(id, { action: 'request_context', comment: 'Which invoice?' });
    await until('the question has arrived', async () => 'details' in (await standing(id)));
    const { body } = await call(2004);
    expect(body).toMatchObject({
      reason_code: 'approval.pending',
      details: { approver_comment: 'Which invoice?' },
    });
    await decide(id, { action: 'approve', comment: 'ticket 77, ask nobody' });
    await stands(id, 'approved');
    expect(await standing(id)).not.toHaveProperty('details');
  });

  it('is returned by the next preflight of the same action', async () => {
    const { agentId, api } = bench.separate;
    const made = await api('POST', '/v1/agents/service-accounts', {
      agent_id: Number(agentId),
      name: 'preflights',
    });
    const key = String(made.body.key);
    const action = {
      agent_id: String(agentId),
      user_id: 'user_1',
      tool: 'bank.pay',
      resource: 'account:main',
      args: { amount: 2005 },
    };
    const asked = await api('POST', '/v1/actions/preflight', action, key);
    expect(asked.body.explain).not.toHaveProperty('details');
    await decide(String(asked.body.approval_request_id), { action: 'deny', comment });
    const again = await api('POST', '/v1/actions/preflight', action, key);
    expect(again.body.explain).toMatchObject({ details: { approver_comment: told } });
  });
});

describe('a grant whose rule became stricter', () => {
  it('is refused at a live sidecar, which opens a new approval and accepts a grant by a sufficient role', async () => {
    const { api } = bench.separate;
    const made = await api('POST', '/v1/keys', { name: 'ann', role: 'approver', principal: 'ann' });
    const ann = String(made.body.key);
    const first = await ask(3001);
    await decide(first, { action: 'approve' }, ann);
    await stands(first, 'approved');
    await publish(2, 'owner');
    let second = '';
    await until('the call is asked about again', async () => {
      const { status, body } = await call(3001);
      // Until the sidecar has the new rule, the control plane refuses the use of the grant.
      expect([202, 403]).toContain(status);
      second = String(body.approval_request_id);
      return status === 202;
    });
    expect(second).not.toBe(first);
    const seen = bench.upstream.seen.length;
    expect((await decide(second, { action: 'approve' }, ann)).body.reason_code).toBe(
      'approval.role_insufficient',
    );
    await decide(second, { action: 'approve' });
    await stands(second, 'approved');
    expect((await bench.pay(3001)).status).toBe(200);
    expect(bench.upstream.seen).toHaveLength(seen + 1);
  });
});

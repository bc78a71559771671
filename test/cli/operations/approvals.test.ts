import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { type ApprovalDesk, startApprovalDesk } from '../../support/control-plane/approval-desk.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';

let desk: ApprovalDesk;
let folder: PolicyFolder;
beforeAll(async () => {
  desk = await startApprovalDesk();
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: desk.gateway.api.origin,
    SALLYPORT_API_KEY: await desk.gateway.api.key({ role: 'approver', principal: 'carla' }),
  });
});
afterAll(async () => {
  folder?.remove();
  await desk?.close();
});

const approvals = (...args: readonly string[]) => folder.sallyport('approvals', ...args);

describe('sallyport approvals', () => {
  it('lists and shows open requests, and approves and denies them with a comment', async () => {
    const one = await desk.request({ args: { amount: 40, note: 'x\u202E\u001b[2J' } });
    const other = await desk.request();
    const { code, out } = await approvals('list');
    expect(code).toBe(0);
    const [head, ...rows] = out.trimEnd().split('\n');
    expect(head).toMatch(/^ID +STATUS +TOOL +RESOURCE +AGENT +USER +RISK +REASON +ASKED +LEFT$/);
    expect(rows.map((row) => row.split(' ')[0])).toEqual([String(other.id), String(one.id)]);

    const shown = (await approvals('show', String(one.id))).out;
    expect(shown).toContain('arguments   {"amount":40,');
    expect(shown.replaceAll('\n', '')).not.toMatch(/\p{C}/u);

    const yes = await approvals('approve', String(one.id), '--comment', 'ticket 77');
    expect(yes).toMatchObject({ code: 0, err: '' });
    expect(yes.out).toMatch(
      new RegExp(`^Approval ${one.id}: approved, by carla; valid until \\S+; ev_\\w+\\n$`),
    );
    expect(await desk.stored(one.id)).toMatchObject({ decidedBy: 'carla', comment: 'ticket 77' });

    const no = await approvals('deny', String(other.id), '--comment', 'never', '--json');
    expect(JSON.parse(no.out)).toMatchObject({ id: other.id, status: 'denied', action: 'deny' });

    expect((await approvals('list')).out).toBe('Nothing waits for a decision.\n');
    const denied = JSON.parse((await approvals('list', '--status', 'denied', '--json')).out);
    expect(denied).toMatchObject([{ id: other.id, decided_by: 'carla', comment: 'never' }]);
    expect((await approvals('show', String(other.id))).out).toMatch(
      /^decided by +carla .*, "never"$/m,
    );
  });

  it('reports how many more approvers must agree', async () => {
    const { id } = await desk.request({ tool: 'two' });
    expect((await approvals('approve', String(id))).out).toContain('; 1 more must agree');
    expect((await approvals('show', String(id))).out).toContain(
      'vote        carla (approver): approve',
    );
  });

  it('gives a standing grant within the limits of the rule; the grant ends when it is revoked', async () => {
    const { id, asked } = await desk.request({ tool: 'often' });
    const again = async (args = asked.args) =>
      (await desk.gateway.owner.call(preflight, { body: { ...asked, args } })).decision;
    const beyond = await approvals('approve', String(id), '--uses', '4');
    expect(beyond).toMatchObject({ code: 1, out: '' });
    expect(beyond.err).toContain('uses: the rules allow at most 3.');
    const yes = ['--uses', '3', '--ttl', '30m', '--scope', 'tool'];
    const { out } = await approvals('approve', String(id), ...yes);
    expect(out).toContain('; 0 of 3 uses of the tool consumed; ev_');
    expect(await desk.stored(id)).toMatchObject({ status: 'approved' });
    expect([await again(), await again({ amount: 41 })]).toEqual(['allow', 'allow']);
    expect((await approvals('show', String(id))).out).toContain(
      'valid for   2 of 3 uses of the tool consumed\n',
    );
    expect(await approvals('revoke', String(id))).toMatchObject({
      code: 0,
      out: `Approval ${id}: revoked, after 2 uses\n`,
    });
    expect(await again()).toBe('require_approval');
    expect((await approvals('show', String(id))).out).toContain(', revoked by carla ');
  });

  it('refuses a malformed grant and leaves the approval pending', async () => {
    const { id } = await desk.request({ tool: 'often' });
    const wrong = [
      ['approve', '--uses', '0'],
      ['approve', '--uses', 'many'],
      ['approve', '--ttl', '30'],
      ['approve', '--ttl', '1s'],
      ['approve', '--scope', 'all'],
    ].map(([verb = '', ...options]) => approvals(verb, String(id), ...options));
    for (const { code, out, err } of await Promise.all(wrong)) {
      expect([code, out]).toEqual([1, '']);
      expect(err).toMatch(/uses|ttl|scope/);
    }
    const denied = await approvals('deny', String(id), '--uses', '2');
    expect([denied.code, denied.err]).toEqual([
      2,
      expect.stringContaining("Unknown option '--uses'"),
    ]);
    expect(await desk.stored(id)).toMatchObject({ status: 'pending' });
  });

  it('exits with 1 if a request fails or a value is invalid, and with 2 for invalid arguments', async () => {
    const { id } = await desk.request({ tool: 'boss' });
    const results = await Promise.all([
      approvals('approve', String(id)),
      approvals('show', '2147483647'),
      approvals('approve', '2147483647'),
      approvals('approve', 'x'),
      approvals('list', '--status', 'open'),
      approvals('list', '--al'),
      approvals('aprove', '1'),
      approvals('approve'),
      approvals('show', '1', '2'),
    ]);
    expect(results.map(({ code, out }) => [code, out])).toEqual([
      ...[1, 1, 1, 1, 1].map((code) => [code, '']),
      ...[2, 2, 2, 2].map((code) => [code, '']),
    ]);
    for (const [index, message] of [
      'role',
      'The approval does not exist. Run `sallyport approvals list --all`',
      'The approval does not exist',
      "Value 'x' is invalid for argument 'id'.",
      'Allowed choices are pending,',
      "Unknown option '--al'. Did you mean --all?",
      'Did you mean approve?\nUsage: sallyport approvals ',
      "Missing required argument 'id'.\nUsage: sallyport approvals approve ",
      'Expected 1 argument but got 2: 1, 2.',
    ].entries()) {
      expect(results[index]?.err).toContain(message);
    }
    expect(await desk.stored(id)).toMatchObject({ status: 'pending' });
  });
});

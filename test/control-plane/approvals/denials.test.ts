import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import {
  type Act,
  type ApprovalDesk,
  startApprovalDesk,
} from '../../support/control-plane/approval-desk.ts';
import { rule } from '../../support/control-plane/gateway.ts';

let desk: ApprovalDesk;
beforeAll(async () => {
  desk = await startApprovalDesk();
  const grant = { max_uses: 20, scope: 'tool' };
  await desk.gateway.publish(rule('require_approval', 'wire', { approval: { grant } }));
});
afterAll(() => desk.close());

const wire = (args: JsonObject) => ({ tool: 'wire', resource: 'account:1', args });
const ask = (asked: ReturnType<typeof wire>) =>
  desk.gateway.owner.call(preflight, { body: desk.action(asked) as never });

async function granted(asked: ReturnType<typeof wire>, grant: JsonObject): Promise<number> {
  const id = Number((await ask(asked)).approval_request_id);
  await desk.decide(id, { action: 'approve', grant } as Act);
  return id;
}

describe('the denial of an action by a human', () => {
  it('prevails over a standing grant that covers any arguments, but not over a later approval of the same action', async () => {
    const asked = wire({ amount: 22 });
    const request = await ask(asked);
    await desk.decide(Number(request.approval_request_id), { action: 'deny' });
    const wide = await granted(wire({ amount: 23 }), { uses: 20, scope: 'tool' });
    expect((await ask(wire({ amount: 24 }))).decision).toBe('allow');
    const again = await ask(asked);
    expect(again.decision).toBe('require_approval');
    expect((await desk.stored(wide)).usesSpent).toBe(1);
    await desk.decide(Number(again.approval_request_id), {
      action: 'approve',
      grant: { uses: 1 },
    } as Act);
    expect((await ask(asked)).decision).toBe('allow');
  });
});

import { type Case, type Cases, refusesBodies, succeeds, yields } from './case.ts';
import type { Stage } from './stage.ts';

type Decided = (stage: Stage) => Promise<{ readonly id: number; readonly body: object }>;

const decides = (status: number, reason: string, make: Decided): Case =>
  yields(status, reason, async (ask, stage) => {
    const { id, body } = await make(stage);
    return ask({ params: { id }, body, key: stage.anna });
  });

const approve = { action: 'approve' };

export const approvalCases: Cases = {
  'GET /v1/approvals': [
    succeeds(200, async (ask, { approval }) => {
      await approval('refund');
      return ask();
    }),
    yields(400, 'request.invalid', (ask) => ask({ query: '?limit=0' })),
  ],
  'POST /v1/approvals/expire': [succeeds(200, (ask) => ask())],
  'POST /v1/approvals/{id}/decide': [
    ...['approve', 'deny', 'request_context', 'require_reauth', 'escalate'].map((action) =>
      decides(200, '', async ({ approval }) => ({
        id: await approval('refund'),
        body: { action },
      })),
    ),
    ...refusesBodies({}, { action: 'wave through' }),
    decides(400, 'args.schema_invalid', async ({ approval }) => ({
      id: await approval('refund'),
      body: { ...approve, grant: { uses: 0 } },
    })),
    decides(403, 'approval.self_decision', async ({ approval }) => ({
      id: await approval('refund', { user_id: 'anna' }),
      body: approve,
    })),
    decides(403, 'approval.role_insufficient', async ({ approval }) => ({
      id: await approval('boss'),
      body: approve,
    })),
    decides(403, 'approval.grant_refused', async ({ approval }) => ({
      id: await approval('refund'),
      body: { ...approve, grant: { uses: 2 } },
    })),
    decides(404, 'approval.not_found', async () => ({ id: 2_147_483_647, body: approve })),
    decides(409, 'approval.transition_invalid', async ({ approval, decide }) => {
      const id = await approval('refund');
      await decide(id, { action: 'deny' });
      return { id, body: approve };
    }),
    decides(409, 'approval.precondition_unmet', async ({ approval, decide }) => {
      const id = await approval('refund');
      await decide(id, { action: 'require_reauth' });
      return { id, body: approve };
    }),
    decides(409, 'approval.already_voted', async ({ approval, decide }) => {
      const id = await approval('two');
      await decide(id, approve);
      return { id, body: approve };
    }),
  ],
};

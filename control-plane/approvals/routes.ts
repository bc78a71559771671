import * as contract from '../../shared/contract/approvals.ts';
import type { ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { approvalRecord, grantRecord } from './approval-record.ts';
import { decideApproval } from './decide-approval.ts';
import { expireApprovals } from './expire-approvals.ts';
import { getApproval, listApprovals } from './list-approvals.ts';
import { revokeGrant } from './revoke-grant.ts';
import { storeDecisionHashes } from './store-decision-hashes.ts';

export function approvalRoutes(services: Services): Route[] {
  return [
    route(contract.listApprovals, async ({ query }, caller) => {
      const { rows, nextCursor } = await listApprovals(services, caller, query);
      const approvals = rows.map((row) => approvalRecord(services, caller, row));
      return { body: { approvals, next_cursor: nextCursor } };
    }),
    route(contract.decideApproval, async ({ params, body }, caller) => {
      const { approval, votesMissing, eventId, eventHash } = await decideApproval(
        services,
        caller,
        {
          id: params.id,
          action: body.action,
          comment: body.comment,
          modifiedArgs: body.modified_args,
          grant: body.grant && {
            uses: body.grant.uses,
            ttlSeconds: body.grant.ttl_seconds,
            scope: body.grant.scope,
          },
          source: 'api',
        },
      );
      return {
        body: {
          id: approval.id,
          status: approval.status as ApprovalState,
          action: body.action,
          event_hash: eventHash,
          evidence_id: eventId,
          decided_by: caller.principal,
          votes_missing: votesMissing,
          effective_digest: approval.effectiveDigest ?? undefined,
          grant_expires_at: approval.grantExpiresAt?.toISOString(),
          grant: approval.grantExpiresAt
            ? grantRecord(approval, approval.grantExpiresAt)
            : undefined,
        },
      };
    }),
    route(contract.getApproval, async ({ params }, caller) => ({
      body: approvalRecord(services, caller, await getApproval(services, caller, params.id)),
    })),
    route(contract.revokeGrant, async ({ params: { id } }, caller) => {
      const { revokedAt, usesSpent } = await revokeGrant(services, caller, id);
      const revoked_at = revokedAt.toISOString();
      return { body: { id, revoked: true as const, revoked_at, uses_spent: usesSpent } };
    }),
    route(contract.expireApprovals, async (_input, { tenantId }) => {
      const expired = await expireApprovals(services, tenantId);
      await storeDecisionHashes(services, tenantId);
      return { body: { expired, count: expired } };
    }),
  ];
}

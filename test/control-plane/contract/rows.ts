import type { AnyOperation } from '../../../shared/contract/base/operation.ts';

export interface ContractRow {
  /** `METHOD PATH`. */
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly auth: AnyOperation['auth'];
  readonly permission: string | undefined;
  /** The success statuses, and then the error statuses that the contract lists for the operation. */
  readonly statuses: readonly number[];
}

/**
 * The rows of the API contract: sections 4.1 to 4.4, the evidence of 4.5, and the agents, simulation,
 * policies and kill switches of 4.10. Each row is `METHOD PATH AUTH STATUSES`, with B for any key, G for a
 * key of gateway scope, and - for no key. If the contract leaves the statuses open, the row has those of
 * similar operations.
 */
const contract = `
  POST   /v1/actions/preflight            B  200 400 401 403 429
  POST   /v1/actions/decision             B  200 400 401 403 429
  POST   /v1/actions/execute              G  200 401 403 429
  POST   /v1/passports/issue              B  200 401
  POST   /v1/passports/verify             B  200
  POST   /v1/passports/revoke             B  200 401
  GET    /v1/passports/jwks               -  200
  GET    /v1/approvals                    B  200 401
  POST   /v1/approvals/{id}/decide        B  200 401 403 409
  POST   /v1/approvals/expire             B  200
  GET    /v1/policies                     B  200
  POST   /v1/policies                     B  201 400 403
  POST   /v1/policies/replay              B  200 400
  GET    /v1/policies/{id}                B  200 404
  PUT    /v1/policies/{id}                B  200 404 409
  DELETE /v1/policies/{id}                B  200 404
  POST   /v1/tools/ingest                 B  200 400
  POST   /v1/tools/diff                   B  200 400
  POST   /v1/agents/register              B  201 400 402
  POST   /v1/agents/issue-passport        B  201 400 403 404 500
  POST   /v1/agents/validate              B  200 400 401
  POST   /v1/agents/renew                 B  201 400 401 403
  POST   /v1/agents/refresh-passport      B  201 400 401 403
  POST   /v1/agents/service-accounts      B  201 400 404
  POST   /v1/simulate                     B  200 400
  GET    /v1/policies/lint                B  200
  POST   /v1/policies/lint                B  200 400
  POST   /v1/policies/backtest            B  200 400
  POST   /v1/policies/{id}/versions       B  201 404
  POST   /v1/policies/install-pack        B  201 400
  GET    /v1/evidence/verify              B  200
  POST   /v1/evidence/verify              B  200 400
  GET    /v1/evidence/verification        B  200
  POST   /v1/evidence/verification/accept-loss  B  200 400
  GET    /v1/evidence/dead-letters        B  200
  POST   /v1/evidence/dead-letters/retry  B  200 400
  GET    /v1/evidence/events              B  200 400
  POST   /v1/evidence/events              B  200
  GET    /v1/evidence/stream              B  200 400
  GET    /v1/evidence/stats               B  200 400
  GET    /v1/audit                        B  200 400
  GET    /v1/audit/export                 B  200 400
  GET    /v1/runtime/kill-switches        B  200
  POST   /v1/runtime/kill-switches        B  201 400 403
  DELETE /v1/runtime/kill-switches/{id}   B  200 404
  GET    /v1/evidence/checkpoint          B  200 400
  GET    /v1/evidence/checkpoints         B  200 400
  GET    /v1/evidence/proof/inclusion     B  200 400 404
  GET    /v1/evidence/proof/consistency   B  200 400 404
  GET    /v1/evidence/tile/entries/{path}  B  200 400 404
  GET    /v1/evidence/tile/{level}/{path}  B  200 400 404
  GET    /v1/evidence/export              B  200 400
  GET    /v1/evidence/jwks                B  200
  GET    /v1/compliance                   B  200 401 503
`;

const authOf = { B: 'bearer', G: 'gateway', '-': 'none' } as const;
/** The permissions of the operations for which the contract names one. */
const permissions: Readonly<Record<string, string>> = {
  'POST /v1/approvals/{id}/decide': 'approval.decide',
  'GET /v1/evidence/export': 'evidence.export',
};

export const contractRows: readonly ContractRow[] = contract
  .trim()
  .split('\n')
  .map((line) => {
    const [method = '', path = '', auth = '', ...statuses] = line.trim().split(/ +/);
    const name = `${method} ${path}`;
    return {
      name,
      method,
      path,
      auth: authOf[auth as keyof typeof authOf],
      permission: permissions[name],
      statuses: statuses.map(Number),
    };
  });

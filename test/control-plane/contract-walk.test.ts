import { describe, expect, it } from 'vitest';
import { allRoutes } from '../../control-plane/routes.ts';
import type { Services } from '../../control-plane/services.ts';
import { openApiDocument } from '../../shared/contract/openapi.ts';
import type { AnyOperation } from '../../shared/contract/operation.ts';

interface Row {
  readonly method: string;
  readonly path: string;
  readonly auth: AnyOperation['auth'];
  readonly permission: string | undefined;
  /** Success statuses, then the errors that the contract names for it. */
  readonly statuses: readonly number[];
}

/**
 * The rows of the API contract, sections 4.1 to 4.4, and those of 4.10 about agents, simulation,
 * policies and kill switches: `METHOD PATH AUTH STATUSES`, with B for any key and G for one of
 * gateway scope. Where the contract leaves statuses open, those of its neighbours stand here.
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
  GET    /v1/runtime/kill-switches        B  200
  POST   /v1/runtime/kill-switches        B  201 400 403
  DELETE /v1/runtime/kill-switches/{id}   B  200 404
`;

const authOf = { B: 'bearer', G: 'gateway', '-': 'none' } as const;
/** Where the contract names the permission. */
const permissions: Readonly<Record<string, string>> = {
  'POST /v1/approvals/{id}/decide': 'approval.decide',
};

const rows: readonly Row[] = contract
  .trim()
  .split('\n')
  .map((line) => {
    const [method = '', path = '', auth = '', ...statuses] = line.trim().split(/ +/);
    return {
      method,
      path,
      auth: authOf[auth as keyof typeof authOf],
      permission: permissions[`${method} ${path}`],
      statuses: statuses.map(Number),
    };
  });

// Routes only hold on to their services; these are not called.
const operations = allRoutes({} as Services).map(({ operation }) => operation);
const find = ({ method, path }: Row) =>
  operations.find((one) => one.method === method && one.path === path);
const document = openApiDocument(operations) as {
  readonly paths: Readonly<Record<string, Record<string, { readonly responses: object }>>>;
};

describe('the contract', () => {
  it('has every path of sections 4.1 to 4.4, and of 4.10 about agents, policies and kill switches', () => {
    const missing = rows.filter((row) => find(row) === undefined);
    expect(missing.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  });

  it.each(rows.map((row) => [`${row.method} ${row.path}`, row] as const))(
    'says of %s what the API then does: who may call it, and every status',
    (_name, row) => {
      const operation = find(row);
      expect(operation, `${row.method} ${row.path} is missing`).toBeDefined();
      expect(operation?.auth).toBe(row.auth);
      if (row.permission !== undefined) expect(operation?.permission).toBe(row.permission);
      const responses = document.paths[row.path]?.[row.method.toLowerCase()]?.responses ?? {};
      const said = Object.keys(responses).map(Number);
      expect(row.statuses.filter((status) => !said.includes(status))).toEqual([]);
    },
  );
});

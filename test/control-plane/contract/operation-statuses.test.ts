import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { allRoutes } from '../../../control-plane/routes.ts';
import { openApiDocument } from '../../../shared/contract/base/openapi.ts';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import type { Answer } from '../../support/control-plane/api.ts';
import { agentCases, killSwitchCases, toolCases } from './agent-cases.ts';
import { approvalCases } from './approval-cases.ts';
import type { Case } from './case.ts';
import { commonCases, openCases } from './common-cases.ts';
import { complianceCases } from './compliance-cases.ts';
import { decisionCases } from './decision-cases.ts';
import { evidenceExportCases } from './evidence-export-cases.ts';
import { evidenceTreeCases } from './evidence-tree-cases.ts';
import { policyCases } from './policy-cases.ts';
import { readingCases } from './reading-cases.ts';
import { renewalCases } from './renewal-cases.ts';
import { type ContractRow, contractRows } from './rows.ts';
import { statusStage } from './stage.ts';
import { verificationCases } from './verification-cases.ts';

let produced = 0;
const stage = await statusStage();
afterEach(() => stage.faults.mend());
afterAll(async () => {
  console.log(`${contractRows.length} operations of the contract gave ${produced} answers`);
  await stage.close();
});

const operations = allRoutes(stage.services).map(({ operation }) => operation);
const find = ({ method, path }: ContractRow) =>
  operations.find((one) => one.method === method && one.path === path);

interface Declared {
  readonly content?: Readonly<
    Record<string, { readonly examples?: Readonly<Record<string, unknown>> }>
  >;
}
const document = openApiDocument(operations) as {
  readonly paths: Readonly<
    Record<string, Record<string, { readonly responses: Readonly<Record<string, Declared>> }>>
  >;
};
const responsesOf = ({ path, method }: ContractRow) =>
  document.paths[path]?.[method.toLowerCase()]?.responses ?? {};
const codesOf = (response: Declared | undefined) =>
  Object.keys(response?.content?.['application/json']?.examples ?? {});

const special = {
  ...decisionCases,
  ...approvalCases,
  ...policyCases,
  ...agentCases,
  ...renewalCases,
  ...toolCases,
  ...killSwitchCases,
  ...evidenceTreeCases,
  ...evidenceExportCases,
  ...verificationCases,
  ...complianceCases,
  ...readingCases,
};

/** Declared reasons that are tested elsewhere. */
const elsewhere = {
  // This response takes thirty seconds; http/idempotency.test.ts tests it.
  'POST /v1/actions/execute': ['503 args.idempotency_in_flight'],
} as Readonly<Record<string, readonly string[]>>;

const casesOf = (row: ContractRow, operation: AnyOperation): readonly Case[] => [
  ...(special[row.name] ?? []),
  ...commonCases(operation),
  ...(operation.auth === 'none' ? openCases : []),
];

describe('the API contract', () => {
  it('contains every path of sections 4.1 to 4.5, of 4.7 on compliance, and of 4.10 on agents, policies, kill switches and the audit trail', () => {
    expect(contractRows.filter((row) => find(row) === undefined)).toEqual([]);
  });

  it('contains every operation for which this file has test cases', () => {
    const names = contractRows.map(({ name }) => name);
    expect(Object.keys(special).filter((name) => !names.includes(name))).toEqual([]);
  });
});

describe.each(contractRows.map((row) => [row.name, row] as const))('%s', (_name, row) => {
  const operation = find(row);
  if (operation === undefined) return;
  const cases = casesOf(row, operation);
  const responses = responsesOf(row);

  it('declares the permitted callers, and every status that the contract lists for the operation', () => {
    expect(operation.auth).toBe(row.auth);
    if (row.permission !== undefined) expect(operation.permission).toBe(row.permission);
    const said = Object.keys(responses).map(Number);
    expect(row.statuses.filter((status) => !said.includes(status))).toEqual([]);
  });

  it('has a test case for every status and every reason code that it declares', () => {
    const statuses = new Set(cases.map(({ status }) => status));
    const declared = Object.keys(responses).map(Number);
    expect([...row.statuses, ...declared].filter((status) => !statuses.has(status))).toEqual([]);
    const made = new Set(cases.map(({ status, reason }) => `${status} ${reason}`));
    const reasons = Object.entries(responses).flatMap(([status, response]) =>
      codesOf(response).map((code) => `${status} ${code}`),
    );
    expect(reasons.filter((reason) => !made.has(reason))).toEqual(elsewhere[row.name] ?? []);
  });

  it.each(cases.map((one, n) => ({ ...one, n })))(
    'returns $status $reason (case $n)',
    async ({ answer, status, reason }) => {
      const got = await answer((given) => stage.send(operation, given), stage);
      expect([got.status, String(got.body?.reason_code ?? '')], got.text).toEqual([status, reason]);
      if (status < 300) expectSuccess(got, operation);
      else expectError(got, codesOf(responses[status]), operation);
      expectHeaders(got);
      produced += 1;
    },
  );
});

/** Expects the content type and the fields that the operation declares, and no other fields. */
function expectSuccess(answer: Answer, { success }: AnyOperation): void {
  const type = success.contentType ?? 'application/json; charset=utf-8';
  expect(answer.headers.get('content-type')).toBe(type);
  if (success.schema === undefined) return;
  const schema = z.toJSONSchema(success.schema, { io: 'output', unrepresentable: 'any' });
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  expect(ajv.validate(schema, answer.body), ajv.errorsText()).toBe(true);
}

const decisionFields = ['decision', 'chain_id', 'evidence_event_id', 'mode', 'enforced'];
/** For each reason, the additional fields that its error may have. */
const detailsOf: Readonly<Record<string, readonly string[]>> = {
  'auth.insufficient_permission': ['scope'],
  'auth.gateway_scope_required': ['scope'],
  'policy.invalid': ['path'],
  'plan.cap_reached': ['feature', 'min_tier'],
};

/** Expects `{ error, reason_code }` and the permitted details, without the cause. */
function expectError(
  { status, body = {}, headers, text }: Answer,
  codes: readonly string[],
  { isDecision }: AnyOperation,
): void {
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  const { error, reason_code, ...more } = body;
  expect(error).toEqual(expect.stringMatching(/\S/));
  expect(codes).toContain(reason_code);
  if (status === 402) expect(more).toEqual({ feature: expect.any(String), min_tier: 'team' });
  expect(text).not.toMatch(/\bat .*\.ts:\d|relation|prisma|_away|No space|eyJ/i);
  const isRecorded = 'evidence_event_id' in more;
  if (isDecision === true) expect(more.decision).toBe('deny');
  else expect(more).not.toHaveProperty('decision');
  const known = isRecorded ? decisionFields : (detailsOf[String(reason_code)] ?? []);
  const { decision: _decision, ...rest } = more;
  expect(
    Object.keys(isDecision === true && !isRecorded ? rest : more).filter(
      (field) => !known.includes(field),
    ),
  ).toEqual([]);
}

function expectHeaders({ status, headers, body }: Answer): void {
  const reason = String(body?.reason_code ?? '');
  const challenge = headers.get('www-authenticate');
  if (status === 401) expect(challenge).toMatch(/^Bearer realm="sallyport"/);
  else if (reason.startsWith('auth.')) expect(challenge).toContain('error="insufficient_scope"');
  else expect(challenge).toBeNull();
  if (status === 429) {
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(headers.get('ratelimit')).toMatch(/^"\w+";r=0;t=\d+$/);
  } else if (status === 503) {
    expect(headers.get('retry-after')).toBe('1');
  } else {
    expect(headers.get('retry-after')).toBeNull();
  }
  // Unknown callers have no tenant budget, and a failure may occur before the request is counted.
  const isEarly = ['internal.unexpected', 'integrity.forged_row'].includes(reason);
  if (!reason.startsWith('auth.') && !isEarly) {
    expect(headers.get('ratelimit-policy')).toMatch(/^"\w+";q=\d+;w=60$/);
  }
}

import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { Services } from '../../../control-plane/core/services.ts';
import { allRoutes } from '../../../control-plane/routes.ts';
import { trustedFields } from '../../../control-plane/sidecars/trusted-fields.ts';
import { firstLine } from '../../../control-plane/sidecars/uploaded-segment.ts';
import type { SpoolRecord } from '../../../proxy/spool/spool.ts';
import { actionDigest } from '../../../shared/approval/action-digest.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { sidecarTokenAudience, sidecarTokenType } from '../../../shared/contract/sidecar-token.ts';
import { spoolRecord } from '../../../shared/contract/spool-record.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';

interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly additionalProperties?: boolean | Shape;
  readonly $ref?: string;
}

type Definitions = Readonly<Record<string, Shape>>;

/** Returns the leaves of a schema: `[]` stands for array elements, `*` for members of an open object. */
function leaves(shape: Shape, path: string, definitions: Definitions): readonly string[] {
  const named = definitions[shape.$ref?.replace('#/$defs/', '') ?? ''];
  if (named !== undefined) return leaves(named, path, definitions);
  if (shape.properties !== undefined) {
    return Object.entries(shape.properties).flatMap(([name, inner]) =>
      leaves(inner, `${path}.${name}`, definitions),
    );
  }
  if (shape.items !== undefined) return leaves(shape.items, `${path}[]`, definitions);
  return [shape.additionalProperties === undefined ? path : `${path}.*`];
}

function fieldsIn(schema: z.ZodType | undefined, path: string): readonly string[] {
  if (schema === undefined) return [];
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape & {
    readonly $defs?: Definitions;
  };
  return leaves(shape, path, shape.$defs ?? {});
}

const sidecarOperations = allRoutes({} as Services)
  .map(({ operation }) => operation)
  .filter(({ auth }) => auth === 'sidecar');

it('the table of trusted fields lists exactly the fields of every sidecar call', () => {
  const declared = Object.fromEntries(
    sidecarOperations.map(({ id, params, query, body, bodyType }) => [
      id,
      [
        ...fieldsIn(params, 'params'),
        ...fieldsIn(query, 'query'),
        ...(bodyType === 'ndjson'
          ? [...fieldsIn(firstLine, 'head'), ...fieldsIn(spoolRecord, 'record')]
          : fieldsIn(body, 'body')),
      ].toSorted(),
    ]),
  );
  const listed = Object.entries(trustedFields).map(([id, fields]) => [
    id,
    Object.keys(fields).toSorted(),
  ]);
  expect(Object.fromEntries(listed)).toEqual(declared);
});

let gateway: Gateway;
let sidecar: EnrolledSidecar;
let others: EnrolledSidecar;
beforeAll(async () => {
  gateway = await startGateway();
  await gateway.publish(
    rule('require_approval', 'pay', { approval: { min_role: 'owner', quorum: 2 } }),
    rule('allow', 'read'),
  );
  sidecar = await enrolledSidecar(gateway, await gateway.agent('bot', ['pay', 'read']));
  others = await enrolledSidecar(gateway, await gateway.agent('other', ['**']));
});
afterAll(() => gateway.close());

function token(): string {
  const now = Math.floor(gateway.services.clock.now() / 1000);
  const { id, enrolment } = sidecar;
  const jti = newId('st', gateway.services.clock.now());
  const claims = { iss: id, sub: id, aud: sidecarTokenAudience, iat: now, exp: now + 30, jti };
  return signJws(claims, sidecarTokenType, enrolment.signingKey);
}

const call = (path: string, body: unknown) =>
  gateway.api.send('POST', `/api${path}`, { key: token(), body });

/** Returns a sidecar's request, with the digest of its arguments unless another digest is given. */
function asked(more: JsonObject = {}): JsonObject {
  const shown = { tool: 'pay', resource: 'invoice:1', args: { amount: 1 }, ...more };
  const digest = actionDigest({
    tenant: 'default',
    agent_id: sidecar.agentId,
    user_id: String(more.user_id ?? 'user-1'),
    tool: shown.tool,
    resource: shown.resource,
    args: shown.args as JsonObject,
    mcp: more.mcp as JsonObject | undefined,
    manifest_hash: (more.manifest_hash as string | undefined) ?? null,
  });
  return {
    reason_code: 'mine',
    matched_rules: ['p/mine'],
    policy_hash: `sha256:${'0'.repeat(64)}`,
    risk_tier: 'low',
    terms: { channels: [], minRole: 'approver', quorum: 1 },
    action_digest: digest,
    ...shown,
  };
}

const digestOfAnother = (more: JsonObject) => ({
  ...asked(more),
  action_digest: asked().action_digest ?? null,
});
const approvals = '/v1/sidecars/approvals';

async function expectRefused(body: JsonObject, code: string): Promise<void> {
  const before = await gateway.services.db.approval.count();
  expect((await call(approvals, body)).body?.reason_code).toBe(code);
  expect(await gateway.services.db.approval.count()).toBe(before);
}

async function expectOwnTerms(): Promise<void> {
  const lenient = {
    channels: ['mine'],
    minRole: 'agent',
    quorum: 1,
    slaSeconds: 1_000_000,
    grant: { uses: 100, ttlSeconds: 3_600, scope: 'tool' },
  };
  const answer = await call(approvals, asked({ terms: lenient, args: { amount: 2 } }));
  expect(answer.status).toBe(201);
  const where = { tenantId_id: { tenantId: 'default', id: Number(answer.body?.approval_id) } };
  const row = await gateway.services.db.approval.findUniqueOrThrow({ where });
  expect(row).toMatchObject({
    minRole: 'owner',
    quorum: 2,
    reasonCode: 'test.require_approval',
    grantLimits: null,
    userId: 'user-1',
  });
  expect(row.policyHash).not.toBe(asked().policy_hash);
  expect(row.expiresAt.getTime() - row.requestedAt.getTime()).toBeLessThanOrEqual(3_600_000);
}

async function expectAside(more: JsonObject): Promise<void> {
  const type = 'sidecar.evidence_put_aside';
  const before = await gateway.services.db.evidenceRow.count({ where: { type } });
  const one = await enrolledSidecar(gateway, sidecar.agentId);
  const records = [one.record(more)];
  await one.upload(one.segment(records).jws, records);
  expect(await gateway.services.db.evidenceRow.count({ where: { type } })).toBe(before + 1);
}

async function upload(
  head: JsonObject,
  records: readonly SpoolRecord[] = [sidecar.record()],
): Promise<unknown> {
  const lines = [JSON.stringify(head), ...records.map((one) => canonicalJson(one))];
  const headers = { 'content-type': 'application/x-ndjson' };
  const body = Buffer.from(`${lines.join('\n')}\n`);
  const answer = await gateway.api.send('POST', '/api/v1/sidecars/evidence', {
    key: token(),
    headers,
    body,
  });
  return answer.body?.reason_code;
}

const forgedLedger = { position: 9_999, tree_root: `sha256:${'1'.repeat(64)}`, jws: 'a.b.c' };
const otherHash = `sha256:${'2'.repeat(64)}`;

/**
 * For each field, the result if a sidecar sends a false value. Fields with the trust `own` have no
 * entry.
 */
const hostile: Readonly<Record<string, () => Promise<unknown>>> = {
  'openSidecarApproval body.tool': () =>
    expectRefused(digestOfAnother({ tool: 'read' }), 'approval.invalid'),
  'openSidecarApproval body.resource': () =>
    expectRefused(digestOfAnother({ resource: 'invoice:2' }), 'approval.invalid'),
  'openSidecarApproval body.args.*': () =>
    expectRefused(digestOfAnother({ args: { amount: 9 } }), 'approval.invalid'),
  'openSidecarApproval body.mcp.*': () =>
    expectRefused(digestOfAnother({ mcp: { task: {} } }), 'approval.invalid'),
  'openSidecarApproval body.action_digest': () =>
    expectRefused({ ...asked(), action_digest: otherHash }, 'approval.invalid'),
  'openSidecarApproval body.user_id': () =>
    expectRefused(asked({ user_id: 'ceo' }), 'approval.invalid'),
  'openSidecarApproval body.passport_jti': () =>
    expectRefused(asked({ user_id: 'ceo', passport_jti: 'pp_1' }), 'approval.invalid'),
  'openSidecarApproval body.passport': () =>
    expectRefused(asked({ passport: 'a.b.c' }), 'approval.action_denied'),
  'openSidecarApproval body.manifest_hash': () =>
    expectRefused(asked({ manifest_hash: otherHash }), 'tool.manifest_changed'),
  ...Object.fromEntries(
    [
      'reason_code',
      'matched_rules[]',
      'policy_hash',
      'risk_tier',
      'terms.channels[]',
      'terms.minRole',
      'terms.quorum',
      'terms.slaSeconds',
      'terms.grant.uses',
      'terms.grant.ttlSeconds',
      'terms.grant.scope',
    ].map((field) => [`openSidecarApproval body.${field}`, expectOwnTerms]),
  ),
  'spendSidecarApproval params.id': async () => {
    const foreign = await gateway.services.db.approval.findFirst({
      where: { sidecarId: others.id },
    });
    const answer = await call(`${approvals}/${foreign?.id ?? 999_999}/spend`, {});
    expect(answer.body?.reason_code).toBe('approval.not_found');
  },
  'claimSidecarPassport body.jti': async () => {
    const answer = await call('/v1/sidecars/passports/claim', { jti: 'pp_unknown' });
    expect(answer.body?.reason_code).toBe('passport.agent_mismatch');
  },
  'reportSidecar body.spool_written': async () => {
    const type = 'sidecar.evidence_rewound';
    for (const spool_written of [9, 3]) await call('/v1/sidecars/report', { spool_written });
    const where = { type, chainId: `sidecar:${sidecar.id}` };
    expect(await gateway.services.db.evidenceRow.count({ where })).toBe(1);
  },
  'uploadEvidence head.segment': async () =>
    expect(await upload({ segment: 'a.b.c' })).toBe('evidence.event_invalid'),
  ...Object.fromEntries(
    ['position', 'tree_root', 'jws'].map((field) => [
      `uploadEvidence head.ledger.${field}`,
      async () => {
        const records = [sidecar.record()];
        const { jws } = sidecar.segment(records);
        const head = { segment: jws, ledger: forgedLedger };
        expect(await upload(head, records)).toBe('evidence.rolled_back');
      },
    ]),
  ),
  'uploadEvidence record.event.type': () => expectAside({ type: 'policy.published' }),
  'uploadEvidence record.event.chain_id': () => expectAside({ chain_id: 'agent:999' }),
  'uploadEvidence record.event.source': () => expectAside({ source: 'control-plane' }),
  'uploadEvidence record.event.agent_id': () => expectAside({ agent_id: '999' }),
  'uploadEvidence record.event.user_id': () => expectAside({ user_id: 'ceo' }),
  'uploadEvidence record.event.data.*': () => expectAside({ data: { acted_for: 'ceo' } }),
  'uploadEvidence record.event.id': async () => {
    const one = await enrolledSidecar(gateway, sidecar.agentId);
    const taken = one.record();
    const other = { ...taken, event: { ...taken.event, resource: 'invoice:9' } };
    await one.upload(one.segment([taken, other]).jws, [taken, other]);
    const where = { chainId: `sidecar:${one.id}`, type: 'sidecar.evidence_put_aside' };
    expect(await gateway.services.db.evidenceRow.count({ where })).toBe(1);
  },
};

const claiming = Object.entries(trustedFields).flatMap(([id, fields]) =>
  Object.entries(fields)
    .filter(([, [trust]]) => trust !== 'own')
    .map(([field]) => `${id} ${field}`),
);

it('every field that the control plane does not accept as the sidecar’s own statement has a hostile test case', () => {
  expect(Object.keys(hostile).toSorted()).toEqual(claiming.toSorted());
});

it.each(claiming)('a sidecar gains no advantage from a false value in %s', async (field) => {
  await hostile[field]?.();
});

import { describe, expect, it } from 'vitest';
import type { Route } from '../../../control-plane/platform/http/route.ts';
import type { AccessExample, AnyOperation } from '../../../shared/contract/base/operation.ts';
import { roles } from '../../../shared/contract/keys.ts';
import { type Answer, holds, type TestApi } from './api.ts';

export interface AccessHarness {
  readonly api: () => TestApi;
  /**
   * For each collection path, such as `/v1/policies`, a function that creates an object of the
   * collection in a tenant and returns its id. If an operation addresses an object of a collection
   * that is missing here, the suite fails, so that no collection can be forgotten.
   */
  readonly objects: Readonly<Record<string, (tenantId: string) => Promise<string | number>>>;
}

const ownTenant = 'access-own';
const otherTenant = 'access-other';

interface Addressed {
  readonly object: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Verifies over real HTTP that every operation follows the same access rules. */
export function describeAccess(routes: readonly Route[], harness: AccessHarness): void {
  for (const operation of routes.map((route) => route.operation)) {
    describe(`access to ${operation.id}`, () => {
      if (operation.auth === 'none') return describeOpen(operation, harness);
      describeStrangers(operation, harness);
      if (operation.auth !== 'sidecar') describePermission(operation, harness);
      if (operation.auth === 'gateway') describeScope(operation, harness);
      if (operation.auth !== 'sidecar') describeOtherTenant(operation, harness);
    });
  }
}

function describeOpen(operation: AnyOperation, { api }: AccessHarness): void {
  it('responds without an API key, and never requires one', async () => {
    const answer = await call(api(), operation, {});
    expect(answer.body?.reason_code).not.toBe('auth.missing_key');
    expect(answer.body?.reason_code).not.toBe('auth.invalid_key');
  });
}

function describeStrangers(operation: AnyOperation, { api }: AccessHarness): void {
  const code = operation.auth === 'sidecar' ? 'auth.sidecar_required' : undefined;

  it('refuses a caller without an API key', async () => {
    const answer = await call(api(), operation, {});
    expectRefusal(answer, 401, code ?? 'auth.missing_key');
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="sallyport"');
  });

  it.each([
    ['is not a key', 'apk_short'],
    ['has a wrong checksum', `apk_${'0'.repeat(36)}`],
    ['was never issued', 'apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ'],
    ['is a JWT without a known issuer', 'eyJhbGciOiJFZERTQSJ9.e30.AAAA'],
  ])('refuses a key that %s', async (_what, key) => {
    const answer = await call(api(), operation, { key });
    expectRefusal(answer, 401, code ?? 'auth.invalid_key');
    expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });
}

function describePermission(operation: AnyOperation, { api }: AccessHarness): void {
  const { permission = '' } = operation;
  const lacking = roles.filter((role) => !holds(role, permission));

  it(`refuses every role without ${permission}`, async () => {
    expect(lacking).not.toEqual([]);
    for (const role of lacking) {
      const key = await api().key({ tenantId: ownTenant, role, scope: 'gateway' });
      const answer = await call(api(), operation, { key });
      expectRefusal(answer, 403, 'auth.insufficient_permission');
      const challenge = `error="insufficient_scope", scope="${permission}"`;
      expect(answer.headers.get('www-authenticate')).toContain(challenge);
    }
  });
}

function describeScope(operation: AnyOperation, { api }: AccessHarness): void {
  it('refuses a key of tenant scope, even an owner’s key', async () => {
    const key = await api().key({ tenantId: ownTenant, role: 'owner', scope: 'tenant' });
    const answer = await call(api(), operation, { key });
    expectRefusal(answer, 403, 'auth.gateway_scope_required');
  });
}

function describeOtherTenant(operation: AnyOperation, { api, objects }: AccessHarness): void {
  const addressed = addressedBy(operation);
  if (addressed === undefined) return;

  it('finds no object of another tenant', async () => {
    const make = objects[addressed.object];
    if (make === undefined) {
      throw new Error(
        `${operation.id} addresses an object of ${addressed.object}: say in the harness how to make one, or declare accessExample`,
      );
    }
    const id = await make(otherTenant);
    const key = await api().key({ tenantId: ownTenant, role: 'owner', scope: 'gateway' });
    const answer = await call(api(), operation, { key, addressed: filled(addressed, id) });
    expect(answer.status).toBe(404);
    expect(answer.body?.reason_code).toMatch(/^(?!request\.).*not_found$/);
    expect(answer.text).not.toContain(otherTenant);
  });
}

/**
 * Returns the object that an operation addresses: the declared one or, if none is declared, an
 * object of the collection that the path names before its first parameter.
 */
function addressedBy({ path, accessExample, bodyExample }: AnyOperation): Addressed | undefined {
  if (accessExample === 'own-name') return undefined;
  if (accessExample !== undefined) return declared(accessExample);
  const [, object, name] = /^(.*)\/\{(\w+)\}/.exec(path) ?? [];
  if (object === undefined || name === undefined) return undefined;
  return { object, params: { [name]: '{id}' }, query: {}, body: bodyExample };
}

function declared(example: Exclude<AccessExample, 'own-name'>): Addressed {
  const { object, params = {}, query = {}, body } = example;
  return { object, params, query, body };
}

/** Replaces every `'{id}'` with the id. In a body, the id keeps its type: number or text. */
function filled(addressed: Addressed, id: string | number): Addressed {
  return JSON.parse(JSON.stringify(addressed), (_name, value) => (value === '{id}' ? id : value));
}

interface CallOptions {
  readonly key?: string;
  readonly addressed?: Addressed;
}

function call(api: TestApi, operation: AnyOperation, { key, addressed }: CallOptions) {
  const params = addressed?.params ?? {};
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
    encodeURIComponent(String(params[name] ?? '1')),
  );
  const query = new URLSearchParams(addressed?.query ?? {});
  const body = addressed === undefined ? operation.bodyExample : addressed.body;
  return api.send(operation.method, `/api${path}${query.size > 0 ? `?${query}` : ''}`, {
    ...(key === undefined ? {} : { key }),
    ...(operation.method === 'GET' || body === undefined ? {} : { body }),
  });
}

function expectRefusal(answer: Answer, status: number, code: string): void {
  expect([answer.status, answer.body?.reason_code]).toEqual([status, code]);
  expect(typeof answer.body?.error).toBe('string');
}

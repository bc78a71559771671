import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { boundedExpiry } from '../../../control-plane/keys/create-key.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import { compiledPolicies } from '../../../control-plane/policies/load-published.ts';
import { erasePersonalData } from '../../../control-plane/privacy/erase-personal-data.ts';
import { policyHash as policyHashOf } from '../../../shared/policy/language/hash.ts';
import { type ForgeryStage, startForgeryStage } from './forgery-stage.ts';

let stage: ForgeryStage;
beforeAll(async () => {
  stage = await startForgeryStage();
});
afterAll(() => stage.gateway.close());

/** Runs the operation while a trigger of the database's owner changes the row at each update. */
async function withTrigger<Result>(
  table: string,
  assignment: string,
  work: () => Promise<Result>,
): Promise<Result> {
  const { pool } = stage.services;
  await pool.query(`create function adds() returns trigger language plpgsql
      as $$ begin new.${assignment}; return new; end $$;
    create trigger adds before update on ${table} for each row execute function adds()`);
  try {
    return await work();
  } finally {
    await pool.query(`drop trigger adds on ${table}; drop function adds`);
  }
}

describe('a row is not signed if it was changed in the database after its verification:', () => {
  it('a policy that was restored between two statements of a decision', async () => {
    const { services, gateway } = stage;
    const rules_json = { id: 'quick', version: 1, rules: [] };
    const made = await gateway.post('/v1/policies', { name: 'quick', rules_json });
    const id = Number(made.body?.id);
    const { policyHash } = await services.db.policy.findUniqueOrThrow({ where: { id } });
    const compiled = (hash: string, of: number) =>
      compiledPolicies(services, 'default', [[of, hash]]);
    await expect(compiled(policyHash, id)).rejects.toMatchObject({ code: 'policy.load_failed' });
    const evil = { id: 'p1', version: 1, rules: [] };
    const { definition } = await services.db.policy.findUniqueOrThrow({ where: { id: 1 } });
    const put = (text: string) =>
      services.pool.query('update policy set definition = $1 where id = 1', [text]);
    await put(JSON.stringify(evil));
    await expect(compiled(policyHashOf(evil as never), 1)).rejects.toMatchObject({
      code: 'policy.load_failed',
    });
    await put(definition);
  });

  it('a user’s role in the directory, changed before the user’s address is erased', async () => {
    const { services } = stage;
    const caller = { tenantId: 'default', principal: 'owner' } as Caller;
    await services.db.$executeRaw`update directory_user set role = 'cfo' where id = 'user-1'`;
    await expect(erasePersonalData(services, caller, { user_id: 'user-1' })).rejects.toMatchObject({
      code: 'integrity.forged_row',
    });
    await services.db.$executeRaw`update directory_user set role = 'clerk' where id = 'user-1'`;
  });

  it('an API key with a longer lifetime, changed before the key creates another key', async () => {
    const { services, gateway } = stage;
    const expiresAt = new Date(services.clock.now() + 3_600_000);
    await gateway.api.key({ role: 'admin', principal: 'short', expiresAt });
    const row = await services.db.apiKey.findFirstOrThrow({ where: { principal: 'short' } });
    const caller = { role: 'admin', keyId: row.id } as Caller;
    const bounded = () =>
      services.db.$transaction((tx) => boundedExpiry(tx, services, { caller, asked: undefined }));
    expect(await bounded()).toEqual(expiresAt);
    await services.db.$executeRaw`update api_key set expires_at = null where id = ${row.id}`;
    await expect(bounded()).rejects.toMatchObject({ code: 'integrity.forged_row' });
  });

  it('an agent with wider capabilities, changed before an administrator updates the agent', async () => {
    const { services, gateway } = stage;
    const id = await gateway.agent('beside', ['pay.*']);
    const key = await gateway.api.key();
    const change = () =>
      gateway.api.send('PATCH', `/api/v1/agents/${id}`, { key, body: { disabled: true } });
    const answer = await withTrigger('agent', `capabilities := '{**}'`, change);
    expect(answer.status).toBe(200);
    const row = await services.db.agent.findFirstOrThrow({ where: { id: Number(id) } });
    expect(row.capabilities).toEqual(['**']);
    expect(services.guard.holds('agent', row)).toBe(false);
  });

  it('a tenant with a larger plan, changed before the mode of the tenant is set', async () => {
    const { services, gateway } = stage;
    const key = await gateway.api.key();
    const change = () =>
      gateway.api.send('PATCH', '/api/v1/tenant/settings', { key, body: { mode: 'strict' } });
    const answer = await withTrigger('tenant', `plan := 'more'`, change);
    expect(answer.status).toBe(200);
    const row = await services.db.tenant.findFirstOrThrow({ where: { id: 'default' } });
    expect(services.guard.holds('tenant', row)).toBe(false);
  });
});

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../../control-plane/core/services.ts';
import { claimedRows } from '../../../control-plane/platform/signed-store/claimed-rows.ts';
import { signedRows } from '../../../control-plane/platform/signed-store/signed-rows.ts';
import {
  claimsOf,
  type Unverified,
  type Verified,
} from '../../../control-plane/platform/signed-store/verified.ts';
import type { ServiceAccount } from '../../../control-plane/platform/store/generated/client.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let services: Services;
beforeAll(async () => {
  gateway = await startGateway();
  services = gateway.services;
});
afterAll(() => gateway.close());

const tenantId = 'default';
const forged = { code: 'integrity.forged_row' };
const accounts = () => signedRows(services, 'service_account');
const at = (id: string) => ({ where: { tenantId, id } });
const unique = (id: string) => ({ where: { id } });

/** Creates two accounts of one agent, of which the second is changed directly in the database. */
async function oneOfTwoForged(agentId: number): Promise<readonly [string, string]> {
  const ids = [`sa_${agentId}_good`, `sa_${agentId}_bad`] as const;
  for (const id of ids) await accounts().create({ id, tenantId, agentId, name: id });
  await services.pool.query(`update service_account set agent_id = 999999 where id = $1`, [ids[1]]);
  return ids;
}

describe('the signed store', () => {
  it('throws for a forged row, omits the row, or returns it marked as unverified, depending on the method', async () => {
    const [good, bad] = await oneOfTwoForged(1);
    const both = { where: { id: { in: [good, bad] } }, orderBy: { id: 'desc' as const } };
    await expect(accounts().findUnique(unique(bad))).rejects.toMatchObject(forged);
    await expect(accounts().findFirst(at(bad))).rejects.toMatchObject(forged);
    await expect(accounts().findMany(both)).rejects.toMatchObject(forged);
    expect((await accounts().findValid(both)).map(({ id }) => id)).toEqual([good]);
    const found = await accounts().findUnverified(both);
    expect(found.map((row) => accounts().isValid(row))).toEqual([true, false]);
    const claims = await claimedRows(services.db, 'service_account').findClaims(['id'], both);
    expect(claims).toEqual([{ id: good }, { id: bad }]);
  });

  it('signs the rows that it creates, changes or inserts', async () => {
    const created = await accounts().create({ id: 'sa_made', tenantId, agentId: 2, name: 'made' });
    const changed = await accounts().update(created, { name: 'changed' });
    expect(await accounts().findUnique(unique('sa_made'))).toEqual(changed);
    const row = { tenantId, id: 'sa_made', agentId: 3, name: 'put', revokedAt: null };
    expect(await accounts().insert(row)).toBe(false);
    expect(await accounts().insert({ ...row, id: 'sa_inserted', name: 'other' })).toBe(true);
    expect(await accounts().findUnique(unique('sa_inserted'))).toMatchObject({ agentId: 3 });
  });

  it('changes a row only if the given condition still holds', async () => {
    const row = await accounts().create({ id: 'sa_once', tenantId, agentId: 4, name: 'once' });
    const revokedAt = new Date(services.clock.now());
    const revoked = await accounts().updateIf(row, { revokedAt: null }, { revokedAt });
    expect(revoked).toMatchObject({ revokedAt });
    expect(await accounts().updateIf(row, { revokedAt: null }, { revokedAt })).toBeUndefined();
    expect(await accounts().findUnique(unique('sa_once'))).toEqual(revoked);
  });

  it('retires a forged row without signing it, unless the caller requests a signature', async () => {
    const [, kept] = await oneOfTwoForged(5);
    const [, signed] = await oneOfTwoForged(6);
    const changes = { revokedAt: new Date(services.clock.now()) };
    const still = { revokedAt: null };
    for (const [id, how] of [
      [kept, 'keep'],
      [signed, 'sign'],
    ] as const) {
      const row = await accounts().findUniqueUnverified(unique(id));
      if (row === null) throw new Error('the account does not exist');
      expect(await accounts().retire(row, still, { changes, forged: how })).toMatchObject(changes);
      expect(await accounts().retire(row, still, { changes, forged: how })).toBeUndefined();
    }
    await expect(accounts().findUnique(unique(kept))).rejects.toMatchObject(forged);
    expect(await accounts().findUnique(unique(signed))).toMatchObject(changes);
  });

  it('signs a row with a decremented counter only if the row was valid before', async () => {
    const tokens = signedRows(services, 'enrolment_token');
    const fields = { tenantId, agentId: '1', userId: 'u', environment: 'dev', createdBy: 'owner' };
    const expiresAt = new Date(services.clock.now() + 60_000);
    const use = async (hash: string) => {
      expect(await tokens.decrement({ hash, usesLeft: { gt: 0 } }, 'usesLeft')).toBe(true);
      const before = ({ usesLeft }: { readonly usesLeft: number }) => ({ usesLeft: usesLeft + 1 });
      return tokens.signChange({ where: { hash } }, before);
    };
    for (const hash of ['valid', 'forged']) {
      await tokens.create({ ...fields, hash, usesLeft: 2, expiresAt });
    }
    expect(await use('valid')).toMatchObject({ usesLeft: 1 });
    expect(await tokens.findUnique({ where: { hash: 'valid' } })).toMatchObject({ usesLeft: 1 });
    await services.pool.query(`update enrolment_token set user_id = 'x' where hash = 'forged'`);
    await expect(use('forged')).rejects.toMatchObject(forged);
  });
});

it('the compiler rejects unverified rows, and copies of verified rows', () => {
  const act = (row: Verified<ServiceAccount>) => row.id;
  const compiled = (verified: Verified<ServiceAccount>, found: Unverified<ServiceAccount>) => [
    act(verified),
    // @ts-expect-error a copy may have been changed
    act({ ...verified, agentId: 7 }),
    // @ts-expect-error not verified
    act(claimsOf(found)),
    // @ts-expect-error not verified
    act(found),
    // @ts-expect-error its columns are hidden
    found.agentId,
  ];
  expect(compiled).toBeTypeOf('function');
});

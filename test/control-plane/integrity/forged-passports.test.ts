import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { until } from '../../support/base/until.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { renewalStage } from '../agents/renewal-stage.ts';
import {
  endStage,
  own,
  ownSection,
  passportOf,
  sectionStage,
} from '../publishing/section-stage.ts';
import { incidentsOf } from './forgery-stage.ts';

const { gateway, issue, renew, refused } = await renewalStage();
afterAll(() => gateway.close());

describe('a passport is not renewed if its row was changed directly in the database:', () => {
  const { services } = gateway;

  it.each([
    [
      'a later start time of its chain of renewals',
      `root_issued_at = root_issued_at + interval '1 hour'`,
    ],
    [
      'the passport itself recorded as the start of its chain',
      'root_issued_at = null, root_jti = null',
    ],
    ['a removed signature', 'mac = null'],
  ])('%s', async (_what, change) => {
    const { token, claims } = await renew((await issue()).token);
    await services.pool.query(`update passport set ${change} where jti = $1`, [claims.jti]);
    expect(await refused(renew(token))).toEqual([403, 'integrity.forged_row']);
    const forgery = { table: 'passport', id: claims.jti };
    await until(async () => (await incidentsOf(services, 'default', forgery)).length === 1);
  });

  it('the kind of the passport', async () => {
    const { token, claims } = await issue();
    const turn = (kind: string) =>
      services.pool.query('update passport set kind = $1 where jti = $2', [kind, claims.jti]);
    await turn('lease');
    expect(await refused(renew(token))).toEqual([403, 'integrity.forged_row']);
    await turn('agent');
    expect((await renew(token)).replaces).toBe(claims.jti);
  });

  it('the row of another passport, copied to a jti that was never issued', async () => {
    const { token, claims } = await issue();
    const other = await issue();
    await services.pool.query('delete from passport where jti = $1', [claims.jti]);
    await services.pool.query('update passport set jti = $1 where jti = $2', [
      claims.jti,
      other.claims.jti,
    ]);
    expect(await refused(renew(token))).toEqual([403, 'integrity.forged_row']);
  });
});

describe('a forged lease row', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let store: Awaited<ReturnType<typeof openStore>>;
  beforeAll(async () => {
    database = await freshDatabase();
    store = await openStore({ databaseUrl: database.url, dataDir: '', log: silentLog });
  });
  afterAll(async () => {
    await store.close();
    await database.drop();
  });

  it('is not published if its date is in the future; the sidecar gets a new, valid lease instead', async () => {
    const stage = await sectionStage(store);
    const lease = async () => passportOf(stage, (await ownSection(stage)).body.lease);
    await stage.running.round();
    const first = await lease();
    await store.pool.query(`update passport set issued_at = issued_at + interval '1 day',
      expires_at = expires_at + interval '1 day'`);
    await stage.world.change(stage.running, [own]);
    await stage.running.round();
    const second = await lease();
    expect(second.jti).not.toBe(first.jti);
    expect(second.iat).toBe(Math.floor(stage.clock.now() / 1000));
    await endStage(stage);
  });
});

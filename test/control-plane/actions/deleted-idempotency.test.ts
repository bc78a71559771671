import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import { executeStage } from './execute-stage.ts';

let stage: Awaited<ReturnType<typeof executeStage>>;
beforeAll(async () => {
  stage = await executeStage();
});
afterAll(() => stage.gateway.close());

const forget = () => stage.services.pool.query('delete from idempotency');

describe('a request whose idempotency row was deleted in the database', () => {
  it('is not performed again when it is repeated, and the deletion is reported', async () => {
    const once = { idempotency_key: 'deleted' };
    expect((await stage.send(once)).body).toMatchObject({ executed: true });
    const before = stage.upstream.seen.length;
    await forget();
    for (let tries = 0; tries < 2; tries++) {
      const again = await stage.send(once);
      expect(again).toMatchObject({ status: 403, body: { reason_code: 'integrity.forged_row' } });
    }
    expect(stage.upstream.seen).toHaveLength(before);
    await until(async () => {
      const rows = await stage.services.db.evidenceRow.findMany({
        where: { tenantId: 'default', type: 'integrity.forged_row' },
      });
      return rows.some(({ canonical }) => canonical.includes('"idempotency"'));
    });
  });

  it('does not block a request with a different idempotency key', async () => {
    await forget();
    expect((await stage.send({ idempotency_key: 'other' })).body).toMatchObject({ executed: true });
  });

  it('can be performed again a day later, when the idempotency key has expired', async () => {
    const { services } = stage;
    const once = { idempotency_key: 'daily' };
    const first = (await stage.send(once)).body;
    services.clock.advance(24 * 3_600_000 + 1);
    const second = (await stage.send(once)).body;
    expect(second).toMatchObject({ executed: true });
    expect(second?.result_event_id).not.toBe(first?.result_event_id);
  });
});

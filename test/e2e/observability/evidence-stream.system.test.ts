import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import { type Follower, startFollower } from '../../support/control-plane/follower.ts';
import {
  startTwoControlPlanes,
  type TwoControlPlanes,
} from '../../support/system/two-control-planes.ts';

let planes: TwoControlPlanes;
const open: Follower[] = [];

beforeAll(async () => {
  planes = await startTwoControlPlanes();
});
afterAll(async () => {
  for (const follower of open) follower.close();
  const { body } = await planes.call(0, 'GET', '/v1/evidence/verify');
  expect(body).toMatchObject({ ok: true });
  await planes.close();
});

async function follow(at: number, lastEventId?: string): Promise<Follower> {
  const options = lastEventId === undefined ? {} : { lastEventId };
  const follower = await startFollower(planes.origins[at] ?? '', {
    key: planes.ownerKey,
    ...options,
  });
  open.push(follower);
  await until(() => follower.comments > 0, { what: 'the stream has begun' });
  return follower;
}

/** Seals events through one of the control planes; returns their ids. */
async function seal(at: number, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let sent = 0; sent < count; sent++) {
    const body = { type: 'custom.note', data: { sent } };
    ids.push(String((await planes.call(at, 'POST', '/v1/evidence/events', body)).body.id));
  }
  return ids;
}

const idsOf = ({ messages }: Follower) => messages.map(({ data }) => data.id);

it('the event stream contains the events of all control planes, with and without the bus', async () => {
  const followers = [await follow(0), await follow(1)];
  const ids = [...(await seal(0, 5)), ...(await seal(1, 5))];
  for (const follower of followers) await follower.has(10);
  await planes.redis.kill();
  ids.push(...(await seal(0, 3)));
  for (const follower of followers) {
    await follower.has(13, 30_000);
    expect(idsOf(follower)).toEqual(ids);
  }
  await planes.redis.restart();
});

it('the event stream ends cleanly at SIGTERM, and a client can resume it at another control plane', async () => {
  const follower = await follow(0);
  const ids = await seal(1, 3);
  await follower.has(3);
  expect(await planes.programs[0]?.stop()).toBe(0);
  expect(await follower.ended()).toBe('ended');
  ids.push(...(await seal(1, 2)));
  const next = await follow(1, follower.lastEventId);
  await next.has(2);
  expect([...idsOf(follower), ...idsOf(next)]).toEqual(ids);
  await planes.start(0);
});

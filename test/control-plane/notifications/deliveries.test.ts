import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { notifyApproval } from '../../../control-plane/approvals/notify-approval.ts';
import {
  attemptDelivery,
  claimDeliveries,
  leaseMs,
} from '../../../control-plane/notifications/attempt-delivery.ts';
import { startDeliveryWorker } from '../../../control-plane/notifications/drain-deliveries.ts';
import { channelsOf } from '../../../control-plane/notifications/routes.ts';
import { webhookChannel } from '../../../control-plane/notifications/webhook-channel.ts';
import {
  deleteWebhook,
  drainDeliveries,
  getWebhook,
  listDeliveries,
  putWebhook,
} from '../../../shared/contract/deliveries.ts';
import { createGuard } from '../../../shared/upstream/address-guard.ts';
import { type ApprovalDesk, startApprovalDesk } from '../../support/control-plane/approval-desk.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { testServices } from '../../support/control-plane/services.ts';
import { until } from '../../support/programs/processes.ts';
import { startUpstream, type Upstream } from '../../support/sidecar/upstream.ts';

const allowPrivate = ['127.0.0.0/8', '::1/128'];
const masterKey = Buffer.alloc(32, 9);
let desk: ApprovalDesk;
let receiver: Upstream;
let secret: string;
const env = { SALLYPORT_ALLOW_PRIVATE: allowPrivate.join(',') };
beforeAll(async () => {
  desk = await startApprovalDesk({ env, masterKey });
});
afterAll(() => desk.close());
beforeEach(async () => {
  receiver = await startUpstream();
  await desk.gateway.services.db.delivery.deleteMany();
  const { owner } = desk.gateway;
  await owner.call(deleteWebhook).catch(() => undefined);
  secret = String((await owner.call(putWebhook, { body: { url: urlOf(receiver) } })).secret);
  return () => receiver.close();
});

const urlOf = ({ port }: Upstream) => `http://127.0.0.1:${port}/hook`;
const drain = (replay_id?: string) =>
  desk.gateway.owner.call(drainDeliveries, { body: replay_id === undefined ? {} : { replay_id } });
const deliveries = async () => (await desk.gateway.owner.call(listDeliveries)).deliveries;
const ids = () => receiver.seen.map(({ headers }) => String(headers['webhook-id']));
const answer = (status: number, headers: Record<string, string> = {}) =>
  receiver.behave((_req, res) => res.writeHead(status, headers).end());

describe('the notifications of a webhook', () => {
  it('report each state of an approval, are signed, and contain neither the arguments nor the goal', async () => {
    const { id } = await desk.request({ args: { iban: 'DE99' } });
    await desk.decide(id, { action: 'approve' });
    expect(await drain()).toMatchObject({ attempted: 2, delivered: 2 });
    const bodies = receiver.seen.map(({ body }) => JSON.parse(body));
    // Messages that are due at the same time are sent in any order. A receiver sorts them by `timestamp` and
    // `status`.
    const told = bodies.map(({ type, data: { approval } }) => [type, approval.id, approval.status]);
    expect(told.toSorted()).toEqual([
      ['approval.decided', id, 'approved'],
      ['approval.requested', id, 'pending'],
    ]);
    for (const { body, headers } of receiver.seen) {
      expect(body).not.toContain('DE99');
      const at = new Date(Number(headers['webhook-timestamp']) * 1000);
      const signature = new Webhook(secret).sign(String(headers['webhook-id']), at, body);
      expect(headers['webhook-signature']).toBe(signature);
    }
  });

  it('are sent once for each change, and never for a refused request', async () => {
    const { id } = await desk.request();
    await desk.decide(id, { action: 'deny' });
    await refusalOf(desk.decide(id, { action: 'approve' }));
    const quick = await desk.request({ tool: 'quick' });
    desk.gateway.services.clock.advance(61_000);
    await refusalOf(desk.decide(quick.id, { action: 'approve' }));
    const told = (await deliveries()).map(({ type, subject }) => `${type} ${subject}`);
    expect(told.toSorted()).toEqual([
      `approval.decided approval:${id}`,
      `approval.expired approval:${quick.id}`,
      `approval.requested approval:${id}`,
      `approval.requested approval:${quick.id}`,
    ]);
  });

  it('are not sent for a change that was rolled back', async () => {
    const { id } = await desk.request();
    const row = await desk.stored(id);
    const { services } = desk.gateway;
    const before = (await deliveries()).length;
    const rolledBack = services.db.$transaction(async (tx) => {
      await notifyApproval(services, tx, 'approval.decided', row);
      throw new Error('undone');
    });
    await expect(rolledBack).rejects.toThrow('undone');
    expect(await deliveries()).toHaveLength(before);
  });

  it('are stored encrypted and never displayed', async () => {
    const { id } = await desk.request();
    const [row] = await desk.gateway.services.db.delivery.findMany();
    expect(row?.sealed).not.toContain('approval.requested');
    expect(row?.sealed).not.toContain('refund');
    const [shown] = await deliveries();
    expect(shown).toMatchObject({ subject: `approval:${id}`, status: 'pending', attempts: 0 });
    expect(Object.keys(shown ?? {})).not.toContain('payload');
  });
});

describe('a webhook receiver', () => {
  it('that fails gets ten attempts with the same message id; the message is then dead-lettered until it is replayed', async () => {
    answer(500);
    await desk.request();
    const { clock } = desk.gateway.services;
    const reports: unknown[] = [];
    for (let attempt = 1; attempt <= 10; attempt++) {
      reports.push(await drain());
      expect(await drain()).toMatchObject({ attempted: 0 });
      clock.advance(1.2 * 24 * 3_600_000);
    }
    expect(reports).toEqual([
      ...Array(9).fill({ attempted: 1, delivered: 0, rescheduled: 1, dead_lettered: 0 }),
      { attempted: 1, delivered: 0, rescheduled: 0, dead_lettered: 1 },
    ]);
    expect(receiver.seen).toHaveLength(10);
    expect(new Set(ids()).size).toBe(1);
    const [dead] = await deliveries();
    expect(dead).toMatchObject({ status: 'dead', attempts: 10, last_status: 500 });
    expect(dead?.last_error).toBe('the receiver answered 500');
    expect((await desk.gateway.owner.call(listDeliveries)).channels).toEqual([
      { channel: 'webhook', active: true, pending: 0, delivered: 0, dead: 1 },
    ]);

    answer(204);
    expect(await drain(dead?.id)).toMatchObject({ delivered: 1, replayed: dead?.id });
    expect((await deliveries())[0]).toMatchObject({ status: 'delivered', attempts: 1, replays: 1 });
    expect(new Set(ids()).size).toBe(1);
    expect((await refusalOf(drain(dead?.id))).code).toBe('delivery.not_dead');
    expect((await refusalOf(drain('msg_none'))).code).toBe('delivery.not_found');
  });

  it('that sends Retry-After gets the next attempt after the requested time', async () => {
    answer(429, { 'retry-after': '600' });
    await desk.request();
    await drain();
    const { clock } = desk.gateway.services;
    clock.advance(599_000);
    expect(await drain()).toMatchObject({ attempted: 0 });
    answer(200);
    clock.advance(2_000);
    expect(await drain()).toMatchObject({ delivered: 1 });
  });

  it('cannot redirect a message to another address', async () => {
    answer(302, { location: urlOf(receiver) });
    await desk.request();
    expect(await drain()).toMatchObject({ rescheduled: 1 });
    expect(receiver.seen).toHaveLength(1);
  });

  it('that is unreachable gets another attempt later, and the recorded error contains only the receiver’s address', async () => {
    await receiver.close();
    await desk.request();
    expect(await drain()).toMatchObject({ rescheduled: 1 });
    const [failed] = await deliveries();
    expect(failed?.last_error).toContain('ECONNREFUSED');
    expect(failed?.last_error).not.toContain('hook');
    receiver = await startUpstream();
  });

  it('that answers 410 receives nothing until the webhook is stored again', async () => {
    answer(410);
    await desk.request();
    await desk.request();
    expect(await drain()).toMatchObject({ attempted: 2, dead_lettered: 2 });
    expect(await desk.gateway.owner.call(getWebhook)).toMatchObject({ status: 'disabled' });
    await desk.request();
    expect(await deliveries()).toHaveLength(2);
    const named = await desk.gateway.owner.call(putWebhook, { body: { url: urlOf(receiver) } });
    expect(named).toMatchObject({ status: 'active' });
    expect(named).not.toHaveProperty('secret');
    await desk.request();
    expect(await deliveries()).toHaveLength(3);
  });

  it('that does not answer causes a timeout and delays no other tenant', async () => {
    const stalled = new Set<() => void>();
    const { services } = desk.gateway;
    receiver.behave((_req, res) => {
      stalled.add(() => res.end());
    });
    for (let n = 0; n < 6; n++) await desk.request();
    const claimed = await claimDeliveries(services, { max: 100 });
    expect(claimed).toHaveLength(4);
    expect(await claimDeliveries(services, { max: 100 })).toEqual([]);
    const impatient = [webhookChannel(createGuard({ allowPrivate }), { timeoutMs: 100 })];
    const outcomes = await Promise.all(
      claimed.map((delivery) => attemptDelivery(services, impatient, delivery)),
    );
    expect(outcomes).toEqual(Array(4).fill('rescheduled'));
    expect((await deliveries()).filter(({ last_error }) => last_error !== undefined)).toHaveLength(
      4,
    );
    for (const end of stalled) end();
  });
});

describe('several control planes', () => {
  it('deliver each message once', async () => {
    const { services } = desk.gateway;
    const { databaseUrl = '' } = services.config;
    const second = await testServices({ databaseUrl, masterKey, env });
    const requests = await Promise.all(Array.from({ length: 24 }, () => desk.request()));
    const workers = [services, second].map((one) =>
      startDeliveryWorker({ ...one, clock: services.clock }, channelsOf(one), 5),
    );
    await until('all are delivered', async () =>
      (await deliveries()).every(({ status }) => status === 'delivered'),
    );
    for (const worker of workers) await worker.close();
    await second.close();
    expect(receiver.seen).toHaveLength(requests.length);
    expect(new Set(ids()).size).toBe(requests.length);
  });

  it('take over the messages of a control plane that stopped during a delivery', async () => {
    await desk.request();
    const { services } = desk.gateway;
    expect(await claimDeliveries(services, { max: 1 })).toHaveLength(1);
    expect(await drain()).toMatchObject({ attempted: 0 });
    services.clock.advance(leaseMs + 1);
    expect(await drain()).toMatchObject({ attempted: 1, delivered: 1 });
    expect((await deliveries())[0]).toMatchObject({ attempts: 2 });
  });

  it('discard a late result if another control plane has delivered the message', async () => {
    await desk.request();
    const { services } = desk.gateway;
    const [slow] = await claimDeliveries(services, { max: 1 });
    services.clock.advance(leaseMs + 1);
    expect(await drain()).toMatchObject({ delivered: 1 });
    answer(500);
    if (slow === undefined) throw new Error('nothing was claimed');
    await attemptDelivery(services, channelsOf(services), slow);
    expect((await deliveries())[0]).toMatchObject({ status: 'delivered' });
  });
});

describe('a webhook', () => {
  it.each([
    'http://hooks.example.com/x',
    'https://169.254.169.254/latest',
    'https://[fd00:ec2::254]/',
    'https://10.0.0.1/',
    'http://8.8.8.8/',
    'https://user:pass@hooks.example.com/',
    'https://hooks.example.com/#x',
    'ftp://hooks.example.com/',
    'https://hooks.example.com*/',
    'not a url',
  ])('is refused if its URL is %s', async (url) => {
    const named = desk.gateway.owner.call(putWebhook, { body: { url } });
    expect((await refusalOf(named)).code).toBe('args.schema_invalid');
  });

  it('has its address checked again at connection time, and a private address is not contacted', async () => {
    const strict = webhookChannel(createGuard({ allowPrivate: [] }));
    const message = { id: 'msg_1', atMs: Date.now(), body: '{}' };
    for (const [host, said] of [
      ['localhost', /loopback address/],
      ['127.0.0.1', /loopback address/],
      ['[::ffff:127.0.0.1]', /loopback address/],
      ['2130706433', /loopback address/],
    ] as const) {
      const settings = JSON.stringify({ url: `http://${host}:${receiver.port}/hook`, secret });
      const result = await strict.send(message, settings);
      expect(result).toMatchObject({ outcome: 'failed', error: expect.stringMatching(said) });
    }
    expect(receiver.seen).toEqual([]);
  });

  it('is displayed with the host of its URL only, and its secret is never displayed again', async () => {
    const shown = await desk.gateway.owner.call(getWebhook);
    expect(shown).toMatchObject({ host: `127.0.0.1:${receiver.port}`, status: 'active' });
    expect(JSON.stringify(shown)).not.toContain('/hook');
    expect(JSON.stringify(shown)).not.toContain('whsec');
    const [install] = await desk.gateway.services.db.install.findMany();
    expect(install?.sealed).not.toContain('whsec');
  });

  it('whose secret was rotated receives signatures with both the old and the new secret for a day', async () => {
    const body = { url: urlOf(receiver), rotate_secret: true };
    const { secret: next = '' } = await desk.gateway.owner.call(putWebhook, { body });
    const signatures = async () => {
      await desk.request();
      await drain();
      const last = receiver.seen.at(-1);
      const at = new Date(Number(last?.headers['webhook-timestamp']) * 1000);
      const by = (key: string) => new Webhook(key).sign(ids().at(-1) ?? '', at, last?.body ?? '');
      const sent = String(last?.headers['webhook-signature']).split(' ');
      return [sent.includes(by(secret)), sent.includes(by(next))];
    };
    expect(await signatures()).toEqual([true, true]);
    desk.gateway.services.clock.advance(86_400_000);
    expect(await signatures()).toEqual([false, true]);
  });

  it('that is removed receives nothing, and its waiting messages are dead-lettered', async () => {
    await desk.request();
    await desk.gateway.owner.call(deleteWebhook);
    expect(await drain()).toMatchObject({ dead_lettered: 1 });
    expect(receiver.seen).toEqual([]);
    const gone = await refusalOf(desk.gateway.owner.call(getWebhook));
    expect(gone.code).toBe('integration.not_found');
    const again = await refusalOf(desk.gateway.owner.call(deleteWebhook));
    expect(again.code).toBe('integration.not_found');
  });

  it('is invisible to other tenants, and so are the deliveries to it', async () => {
    await desk.request();
    const stranger = await desk.gateway.as({ tenantId: 'other' });
    expect((await refusalOf(stranger.call(getWebhook))).code).toBe('integration.not_found');
    expect(await stranger.call(listDeliveries)).toMatchObject({ deliveries: [], channels: [] });
    expect(await stranger.call(drainDeliveries, { body: {} })).toMatchObject({ attempted: 0 });
    const [mine] = await deliveries();
    const theirs = stranger.call(drainDeliveries, { body: { replay_id: mine?.id } });
    expect((await refusalOf(theirs)).code).toBe('delivery.not_found');
    const nowhere = stranger.call(putWebhook, { body: { url: 'https://hooks.example.com/' } });
    await nowhere;
    expect((await desk.gateway.owner.call(getWebhook)).host).toBe(`127.0.0.1:${receiver.port}`);
  });
});

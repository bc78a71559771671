import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { installPlace, payloadPlace } from '../platform/outbound/enqueue.ts';
import type { Delivery, Prisma } from '../platform/store/generated/client.ts';
import type { Channel, SendResult } from './channel.ts';
import { nextAttemptMs } from './schedule.ts';

export type AttemptOutcome = 'delivered' | 'rescheduled' | 'dead_lettered';

interface AttemptDeps extends Pick<Services, 'db' | 'clock' | 'vault' | 'log'> {
  readonly channels: readonly Channel[];
}

const errorLengthMax = 500;

/** Makes one attempt at a delivery that was claimed, and writes down what came of it. */
export async function attemptDelivery(
  services: Services,
  channels: readonly Channel[],
  delivery: Delivery,
): Promise<AttemptOutcome> {
  const result = await send({ ...services, channels }, delivery);
  const outcome = await settle(services, delivery, result);
  if (result.outcome === 'gone') await disableChannel(services, delivery);
  return outcome;
}

async function send(
  { db, clock, vault, channels }: AttemptDeps,
  { tenantId, channel: name, id, sealed }: Delivery,
): Promise<SendResult> {
  const channel = channels.find((known) => known.name === name);
  const install = await db.install.findUnique({
    where: { tenantId_channel: { tenantId, channel: name } },
  });
  if (channel === undefined || install?.sealed == null || install.status !== 'active') {
    return { outcome: 'gone', error: `the channel ${name} is not in use any more` };
  }
  try {
    const settings = vault.open(install.sealed, installPlace(tenantId, name)).toString('utf8');
    const body = vault.open(sealed, payloadPlace(tenantId, id)).toString('utf8');
    return await channel.send({ id, atMs: clock.now(), body }, settings);
  } catch {
    return { outcome: 'failed', error: 'the payload or the channel’s settings cannot be read' };
  }
}

/** Only the worker that holds the delivery says how it went: one that was too slow says nothing. */
async function settle(
  { db, clock }: Services,
  { id, attempts, replays }: Delivery,
  result: SendResult,
): Promise<AttemptOutcome> {
  const nowMs = clock.now();
  const [outcome, data] = settled(result, attempts, nowMs);
  await db.delivery.updateMany({
    where: { id, attempts, replays, status: 'pending' },
    data: { ...data, leasedUntil: null, lastStatus: result.status ?? null },
  });
  return outcome;
}

type Settled = readonly [AttemptOutcome, Prisma.DeliveryUpdateManyMutationInput];

function settled(result: SendResult, attempts: number, nowMs: number): Settled {
  const now = new Date(nowMs);
  if (result.outcome === 'delivered') {
    return ['delivered', { status: 'delivered', deliveredAt: now, lastError: null }];
  }
  const lastError = result.error.slice(0, errorLengthMax);
  const nextMs =
    result.outcome === 'gone'
      ? undefined
      : nextAttemptMs({
          ...{ attempts, nowMs, random: Math.random() },
          retryAfterMs: result.retryAfterMs,
        });
  return nextMs === undefined
    ? ['dead_lettered', { status: 'dead', deadAt: now, lastError }]
    : ['rescheduled', { nextAttemptAt: new Date(nextMs), lastError }];
}

/** A receiver that answered 410 is not asked again: nothing new is queued for it. */
async function disableChannel(services: Services, { tenantId, channel }: Delivery): Promise<void> {
  await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.install.updateMany({
      where: { tenantId, channel, status: 'active' },
      data: { status: 'disabled' },
    });
    if (count === 0) return;
    await notes.event({
      type: 'integration.disabled',
      chainId: `integration:${channel}`,
      data: { channel, reason: 'the receiver answered 410' },
    });
  });
}

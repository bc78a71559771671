import { Redis } from 'ioredis';
import { tenantKeys } from '../../../shared/bus/tenant-keys.ts';

/** A policy that denies every payment. */
export const freeze = {
  id: 'freeze',
  version: 1,
  rules: [
    {
      name: 'freeze',
      decision: 'deny',
      reason: 'pay.frozen',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'bank.pay' }] },
    },
  ],
};

/** Reads the lease of one of the sidecars from the bus, as any client of the bus could. */
export async function leaseOnTheBus(redisUrl: string): Promise<string> {
  const redis = new Redis(redisUrl);
  try {
    const { section, index } = tenantKeys('default');
    const own = (await redis.smembers(index)).find((name) => name.startsWith('sidecar:')) ?? '';
    const [, body = ''] = ((await redis.get(section(own))) ?? '').split('.');
    return JSON.parse(Buffer.from(body, 'base64url').toString()).body.lease;
  } finally {
    redis.disconnect();
  }
}

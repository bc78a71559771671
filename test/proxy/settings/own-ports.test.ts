import { describe, expect, it } from 'vitest';
import { ownPorts } from '../../../proxy/settings/config.ts';
import { createGuard } from '../../../shared/upstream/address-guard.ts';

describe('Sallyport’s own ports', () => {
  it.each([
    ['http://127.0.0.1:8080', 'redis://:secret@127.0.0.1:6380/0', [8080, 6380]],
    ['https://gateway.example', 'rediss://redis.example', [443, 6379]],
    ['http://gateway.example', undefined, [80]],
  ])('are those of the control plane and of Redis: %s %s', (controlPlaneUrl, redisUrl, ports) => {
    expect(ownPorts({ controlPlaneUrl, redisUrl })).toEqual(ports);
  });

  it('on this machine are refused as upstreams, even if loopback addresses are allowed', () => {
    const redisUrl = 'redis://localhost:6380';
    const ports = ownPorts({ controlPlaneUrl: 'http://127.0.0.1:8080', redisUrl });
    const guard = createGuard({ allowPrivate: ['127.0.0.0/8'], ownPorts: ports });
    expect(guard.refusal('127.0.0.1', 6380)?.code).toBe('proxy.address_refused');
    expect(guard.isOwn('localhost', 6380)).toBe(true);
    expect(guard.refusal('127.0.0.1', 6381)).toBeUndefined();
  });
});

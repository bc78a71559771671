import type { Redis } from 'ioredis';
import type { Log } from '../base/log.ts';
import type { Subscription } from './bus.ts';
import { connectRedis } from './redis-connection.ts';
import { channelOf } from './tenant-keys.ts';

type Listener = (message: string) => void;

export interface Topics {
  notify(redis: Redis, topic: string, message: string): Promise<unknown>;
  subscribe(topic: string, onMessage: Listener): Subscription;
  close(): void;
}

/** Notifications over Redis pub/sub. The first subscriber opens the connection. */
export function redisTopics({ url, log }: { readonly url: string; readonly log: Log }): Topics {
  const listeners = new Map<string, Set<Listener>>();
  let connection: Redis | undefined;

  const listen = (redis: Redis, channels: readonly string[]) => {
    if (redis.status !== 'ready' || channels.length === 0) return;
    // A failure means that the connection broke. After a reconnect, all channels are subscribed
    // again.
    redis.subscribe(...channels).catch((error) => {
      log.debug({ error }, 'subscribing on the sync bus failed');
      redis.disconnect(true);
    });
  };
  const open = (): Redis => {
    const redis = connectRedis(url, { name: 'topics', log });
    redis.on('ready', () => listen(redis, [...listeners.keys()]));
    redis.on('message', (channel: string, message: string) => {
      for (const listener of listeners.get(channel) ?? []) listener(message);
    });
    return redis;
  };

  return {
    notify: (redis, topic, message) => redis.publish(channelOf(topic), message),
    subscribe(topic, onMessage) {
      const channel = channelOf(topic);
      // Wraps the function of each subscription. Without a wrapper, a function that subscribes
      // twice would be in the set only once, so a message would call it only once.
      const listener: Listener = (message) => onMessage(message);
      const known = listeners.get(channel);
      if (known === undefined) listeners.set(channel, new Set([listener]));
      else known.add(listener);
      if (connection === undefined) connection = open();
      else if (known === undefined) listen(connection, [channel]);
      return {
        close: async () => {
          const left = listeners.get(channel);
          left?.delete(listener);
          if (left?.size !== 0) return;
          listeners.delete(channel);
          if (connection?.status === 'ready') {
            await connection.unsubscribe(channel).catch(() => connection?.disconnect(true));
          }
        },
      };
    },
    close() {
      listeners.clear();
      connection?.disconnect();
    },
  };
}

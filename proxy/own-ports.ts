import type { Config } from './config.ts';

const defaultPorts: Readonly<Record<string, number>> = {
  'http:': 80,
  'https:': 443,
  'redis:': 6379,
  'rediss:': 6379,
};

/**
 * Sallyport's own ports, as far as settings name them: on this machine they are no place for an
 * agent to go, whatever policy says.
 */
export function ownPorts({
  controlPlaneUrl,
  redisUrl,
}: Pick<Config, 'controlPlaneUrl' | 'redisUrl'>): number[] {
  return [controlPlaneUrl, redisUrl].flatMap((text) => {
    const url = URL.parse(text ?? '');
    const port = url === null ? 0 : Number(url.port) || defaultPorts[url.protocol];
    return port === undefined || port === 0 ? [] : [port];
  });
}

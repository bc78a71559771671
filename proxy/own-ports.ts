import { portsOf } from '../shared/upstream/own-ports.ts';
import type { Config } from './config.ts';

/** Sallyport's own ports, as far as the sidecar's settings name them. */
export function ownPorts({
  controlPlaneUrl,
  redisUrl,
}: Pick<Config, 'controlPlaneUrl' | 'redisUrl'>): number[] {
  return portsOf([controlPlaneUrl, redisUrl]);
}

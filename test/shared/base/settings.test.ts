import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  milliseconds,
  parseSettings,
  port,
  redisUrl,
  SettingsError,
} from '../../../shared/base/settings.ts';

const shape = z.object({
  SALLYPORT_API_PORT: port(8080),
  SALLYPORT_HOLD_MS: milliseconds(25_000),
  SALLYPORT_MASTER_KEY: z.string().optional(),
});

const noFile = () => {
  throw new Error('ENOENT');
};
const read = (env: Record<string, string>, readFile: (path: string) => string = noFile) =>
  parseSettings(shape, { env, readFile });

describe('parseSettings', () => {
  it('returns defaults for settings that are absent or empty', () => {
    expect(read({ SALLYPORT_API_PORT: '' })).toEqual({
      SALLYPORT_API_PORT: 8080,
      SALLYPORT_HOLD_MS: 25_000,
    });
  });

  it('refuses an unknown setting and suggests the known setting with the most similar name', () => {
    expect(() => read({ SALLYPORT_API_PROT: '1' })).toThrow(
      new SettingsError('SALLYPORT_API_PROT is not a setting. Did you mean SALLYPORT_API_PORT?'),
    );
  });

  it('refuses a REDIS_URL with an unsupported scheme, and states the expected form', () => {
    const withRedis = (url: string) =>
      parseSettings(z.object({ REDIS_URL: redisUrl }), {
        env: { REDIS_URL: url },
        readFile: noFile,
      });
    expect(withRedis('rediss://user:secret@host:6379/1').REDIS_URL).toContain('rediss://');
    for (const url of ['localhost', 'localhost:6379', 'http://host', 'redis://']) {
      expect(() => withRedis(url)).toThrow(/REDIS_URL: must begin with redis:/);
    }
  });

  it('accepts a setting that only the other Sallyport program uses', () => {
    expect(read({ SALLYPORT_PROXY_PORT: '1' }).SALLYPORT_API_PORT).toBe(8080);
  });

  it('ignores unknown variables only if Kubernetes sets them for services', () => {
    const service = {
      SALLYPORT_API_SERVICE_HOST: '10.0.0.1',
      SALLYPORT_API_SERVICE_PORT: '80',
      SALLYPORT_API_SERVICE_PORT_HTTP: '80',
      SALLYPORT_API_PORT_80_TCP: 'tcp://10.0.0.1:80',
      SALLYPORT_API_PORT_80_TCP_ADDR: '10.0.0.1',
    };
    expect(read(service).SALLYPORT_API_PORT).toBe(8080);
    expect(() => read({ SALLYPORT_OTHER_PORT_80_TCP: 'x' })).toThrow(/is not a setting/);
  });

  it('refuses a malformed setting and names it', () => {
    expect(() => read({ SALLYPORT_API_PORT: 'eighty' })).toThrow(/^SALLYPORT_API_PORT: /);
    expect(() => read({ SALLYPORT_API_PORT: '70000' })).toThrow(/^SALLYPORT_API_PORT: /);
    expect(() => read({ SALLYPORT_HOLD_MS: '-1' })).toThrow(/^SALLYPORT_HOLD_MS: /);
  });

  it('lists the permitted values of a setting, and refuses durations that a timer cannot handle', () => {
    expect(() => read({ SALLYPORT_API_PORT: '99999' })).toThrow(
      'SALLYPORT_API_PORT: must be a port from 1 to 65535, or 0 for any free one',
    );
    for (const wrong of ['soon', '1.5', '3000000000']) {
      expect(() => read({ SALLYPORT_HOLD_MS: wrong })).toThrow(
        'SALLYPORT_HOLD_MS: must be a whole number of milliseconds from 0 to 86400000',
      );
    }
  });

  it('reads a secret from the file named in its _FILE setting', () => {
    const settings = read(
      { SALLYPORT_MASTER_KEY_FILE: '/run/key' },
      (path) => `${path} holds it\n`,
    );
    expect(settings.SALLYPORT_MASTER_KEY).toBe('/run/key holds it');
  });

  it('refuses a secret that is set both directly and by file, and a file that cannot be read', () => {
    expect(() => read({ SALLYPORT_MASTER_KEY: 'a', SALLYPORT_MASTER_KEY_FILE: 'b' })).toThrow(
      /not both/,
    );
    expect(() => read({ SALLYPORT_MASTER_KEY_FILE: 'gone' })).toThrow(/cannot be read: gone/);
  });

  it('accepts _FILE settings for secrets only', () => {
    expect(() => read({ SALLYPORT_API_PORT_FILE: 'x' })).toThrow(/is not a setting/);
  });
});

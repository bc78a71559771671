import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { listenError } from '../../../shared/base/listen-error.ts';
import { SettingsError } from '../../../shared/base/settings.ts';

describe('the error of a server that cannot listen', () => {
  const servers: Server[] = [];

  async function listen(host: string, port: number): Promise<number> {
    const server = createServer();
    servers.push(server);
    server.listen(port, host);
    await once(server, 'listening').catch((error: Error) => {
      throw listenError(error, { host, port, hostSetting: 'A_HOST', portSetting: 'A_PORT' });
    });
    return (server.address() as AddressInfo).port;
  }

  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  it('names the port that is in use and the setting that configures this port', async () => {
    const port = await listen('127.0.0.1', 0);
    const second = listen('127.0.0.1', port);
    await expect(second).rejects.toThrow(SettingsError);
    await expect(second).rejects.toThrow(new RegExp(`Port ${port} on 127.0.0.1 is in use.*A_PORT`));
  });

  it('names the setting that configures an address which this machine does not have', async () => {
    // RFC 5737 keeps this range for documentation: no machine has it.
    await expect(listen('192.0.2.1', 0)).rejects.toThrow(/192\.0\.2\.1 is not an address.*A_HOST/);
  });

  it('is unchanged if it has any other cause', () => {
    const error = new Error('something else');
    const at = { host: 'h', port: 1, hostSetting: 'A_HOST', portSetting: 'A_PORT' };
    expect(listenError(error, at)).toBe(error);
  });
});

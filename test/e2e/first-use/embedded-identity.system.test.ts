import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi } from '../../../cli/demo/api.ts';
import { startEmbedded } from '../../../cli/embedded/start-embedded.ts';
import { SettingsError } from '../../../shared/base/settings.ts';

let dataDir: string;
beforeAll(() => {
  dataDir = fs.mkdtempSync(join(tmpdir(), 'sallyport-identity-'));
});
afterAll(() => {
  fs.rmSync(dataDir, { recursive: true, force: true });
});

const start = (identity: Readonly<Record<string, string>> = {}) =>
  startEmbedded({
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_LOG_LEVEL: 'silent',
    ...identity,
  });

/** Starts an installation, uses its API and ends it; returns the user and the agent of the sidecar. */
async function identityWith(
  settings: Readonly<Record<string, string>>,
  act: (api: ReturnType<typeof createApi>['api']) => Promise<unknown> = async () => {},
) {
  const embedded = await start(settings);
  try {
    await act(createApi(embedded).api);
    return embedded.sidecar.identity;
  } finally {
    await embedded.close();
  }
}

describe('the agent of an embedded installation', () => {
  it('must be registered; otherwise, the start fails with an error that names the setting', async () => {
    for (const agent of ['99', 'support']) {
      const refused = await start({ SALLYPORT_AGENT_ID: agent }).catch((error: Error) => error);
      expect(refused).toBeInstanceOf(SettingsError);
      expect((refused as Error).message).toMatch(
        new RegExp(`^SALLYPORT_AGENT_ID: .*"${agent}".*POST /v1/agents/register`),
      );
    }
  }, 600_000);

  it('is always the agent that the settings name', async () => {
    const demo = await identityWith({}, (api) =>
      api('POST', '/v1/agents/register', { name: 'support', capabilities: ['*'] }),
    );
    expect(demo).toMatchObject({ agentId: '1', userId: 'demo-user' });
    const support = await identityWith({ SALLYPORT_AGENT_ID: '2', SALLYPORT_USER_ID: 'ada' });
    expect(support).toMatchObject({ agentId: '2', userId: 'ada' });
    const other = await identityWith({ SALLYPORT_USER_ID: 'eve' });
    expect(other).toMatchObject({ agentId: '1', userId: 'eve' });
    const elsewhere = await identityWith({ SALLYPORT_TENANT: 'acme' });
    expect(elsewhere).toMatchObject({ tenantId: 'acme', userId: 'demo-user' });
    // The enrolment of each identity is kept.
    expect(await identityWith({})).toEqual(demo);
    expect(await identityWith({ SALLYPORT_AGENT_ID: '2', SALLYPORT_USER_ID: 'ada' })).toEqual(
      support,
    );
  }, 600_000);
});

it('a data directory without its database is refused, and all opened resources are closed', async () => {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-removed-'));
  await (await start({ SALLYPORT_DATA_DIR: folder })).close();
  fs.rmSync(join(folder, 'postgres'), { recursive: true });
  // The second start would find the folder locked if the first one had left anything open.
  for (let tries = 0; tries < 2; tries++) {
    const refused = await start({ SALLYPORT_DATA_DIR: folder }).catch((error: Error) => error);
    expect(refused).toBeInstanceOf(SettingsError);
    expect((refused as Error).message).toMatch(
      new RegExp(`${folder} has a sidecar .* does not know.*remove all of it to start empty`),
    );
  }
  fs.rmSync(folder, { recursive: true });
}, 600_000);

import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi } from '../../../cli/demo/api.ts';
import { type Embedded, startEmbedded } from '../../../cli/embedded/start-embedded.ts';

let embedded: Embedded;
let dataDir: string;
const start = () =>
  startEmbedded({
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_API_PORT: '0',
    SALLYPORT_PROXY_PORT: '0',
    SALLYPORT_PROXY_ADMIN_PORT: '0',
    SALLYPORT_LOG_LEVEL: 'silent',
  });
beforeAll(async () => {
  dataDir = fs.mkdtempSync(join(tmpdir(), 'sallyport-restart-'));
  embedded = await start();
}, 600_000);
afterAll(async () => {
  await embedded?.close();
  fs.rmSync(dataDir, { recursive: true, force: true });
});

const api = (method: string, path: string, body?: object) =>
  createApi(embedded).api(method, path, body);

describe('a passport of an embedded installation', () => {
  it('is accepted only once, even across a restart', async () => {
    const agent_id = embedded.sidecar.identity.agentId;
    const rule = {
      name: 'free',
      decision: 'allow',
      reason: 'test.allow',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'free' }] },
    };
    const rules_json = { id: 'free', version: 1, rules: [rule] };
    await api('POST', '/v1/policies', { name: 'free', publish: true, rules_json });
    const issue = async (risk_tier: string) =>
      String(
        (
          await api('POST', '/v1/passports/issue', {
            tenant_id: 'default',
            agent_id,
            user_id: 'user-1',
            goal: 'Work',
            risk_tier,
            allowed_tools: ['free'],
            policy_id: 'free',
            audience: 'gateway://agents',
            ttl_seconds: 600,
          })
        ).passport,
      );
    const present = async (passport: string) => {
      const action = { agent_id, user_id: 'user-1', tool: 'free', resource: 'r:1', args: {} };
      const response = await fetch(`${embedded.origin}/api/v1/actions/preflight`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${embedded.ownerKey}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ ...action, passport }),
      });
      return ((await response.json()) as { readonly reason_code: string }).reason_code;
    };
    const passports: Record<'used' | 'unused', string>[] = [];
    for (const risk of ['low', 'high']) {
      passports.push({ used: await issue(risk), unused: await issue(risk) });
    }
    for (const { used } of passports) expect(await present(used)).toBe('test.allow');
    await embedded.close();
    embedded = await start();
    for (const { used, unused } of passports) {
      expect(await present(used)).toBe('passport.replay_detected');
      expect(await present(unused)).toBe('test.allow');
      expect(await present(unused)).toBe('passport.replay_detected');
    }
  }, 600_000);
});

import http from 'node:http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Embedded, startEmbedded } from '../../cli/embedded/start-embedded.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { until } from '../support/base/until.ts';
import { apiOf, postNote, type Stored } from './create-stored.ts';
import { type Unpacked, unpack } from './unpack.ts';
import { upstreamAddress, upstreamPort } from './upstream-address.ts';

let unpacked: Unpacked;
let stored: Stored;
let embedded: Embedded;
let api: ReturnType<typeof apiOf>;
let upstream: http.Server;
const received: (string | undefined)[] = [];

const settings = (dataDir: string) => ({
  SALLYPORT_DATA_DIR: dataDir,
  SALLYPORT_API_PORT: '0',
  SALLYPORT_PROXY_PORT: '0',
  SALLYPORT_PROXY_ADMIN_PORT: '0',
  SALLYPORT_HOLD_MS: '500',
  SALLYPORT_LOG_LEVEL: 'silent',
});

beforeAll(async () => {
  unpacked = unpack('0.1.0');
  stored = unpacked.stored;
  // Sets the clock to a few minutes after the data was created, so that stored grants and passports
  // are still valid.
  const lagMs = Date.now() - Date.parse(stored.madeAt) - 300_000;
  vi.spyOn(systemClock, 'now').mockImplementation(() => Date.now() - lagMs);
  upstream = http.createServer((req, res) => {
    received.push(req.headers.authorization);
    req.resume().on('end', () => res.end('{"done":true}'));
  });
  await new Promise<void>((done) => upstream.listen(upstreamPort, upstreamAddress, done));
  embedded = await startEmbedded(settings(unpacked.dataDir));
  api = apiOf(embedded);
}, 600_000);

afterAll(async () => {
  await embedded?.close();
  upstream?.close();
  unpacked?.remove();
  vi.restoreAllMocks();
});

const action = (tool: string, resource: string) => ({
  agent_id: stored.agentId,
  user_id: 'user-1',
  tool,
  resource,
  args: { note_id: 'n1' },
});
const reasonOf = async (path: string, body: object, key?: string) => {
  const { decision, reason_code: reason } = await api('POST', path, body, key);
  return `${String(decision)} ${String(reason)}`;
};
const preflight = (tool: string, resource = 'note:n1', more: object = {}) =>
  reasonOf('/v1/actions/preflight', { ...action(tool, resource), ...more });

describe('a data directory of version 0.1.0', () => {
  it('opens with a ledger that verifies and without rows that are reported as forged', async () => {
    expect(await api('GET', '/v1/evidence/verify')).toMatchObject({ ok: true });
    const { events } = (await api('GET', '/v1/evidence/events?limit=1000')) as unknown as {
      events: readonly { type: string }[];
    };
    expect(events.filter(({ type }) => type === 'integrity.forged_row')).toEqual([]);
  });

  it('keeps its API keys: accepts valid keys and refuses revoked keys', async () => {
    await api('GET', '/v1/approvals', undefined, stored.approverKey);
    await expect(api('GET', '/v1/approvals', undefined, stored.revokedKey)).rejects.toThrow(/401/);
  });

  it('decides with the stored policies, agents and kill switches', async () => {
    expect(await preflight('notes.write')).toBe('allow notes.allowed');
    expect(await preflight('notes.delete')).toBe('deny notes.denied');
    expect(await preflight('dangerous.thing')).toBe('deny runtime.kill_switch');
    expect(await preflight('harmless.thing')).toBe('deny policy.no_match');
    const disabled = { agent_id: stored.disabledAgentId };
    expect(await preflight('notes.write', 'note:n1', disabled)).toBe('deny agent.disabled');
  });

  it('lists the existing bindings, but none that were removed', async () => {
    const { bindings } = (await api('GET', '/v1/runtime/bindings')) as unknown as {
      bindings: readonly { name: string }[];
    };
    expect(bindings.map(({ name }) => name)).toEqual(['mcp', 'model', 'notes']);
  });

  it('executes with the stored credential, and returns a stored response without executing', async () => {
    const before = received.length;
    const body = action('notes.write', 'note:n1');
    expect(await api('POST', '/v1/actions/execute', body)).toMatchObject({ executed: true });
    expect(received.slice(before)).toEqual([`Bearer ${stored.secret}`]);
    const repeated = await api('POST', '/v1/actions/execute', stored.execution);
    expect(repeated.evidence_event_id).toBe(stored.executionEventId);
    expect(received).toHaveLength(before + 1);
  });

  it('applies stored approvals: granted, standing, denied and pending', async () => {
    const { open, granted, denied, standing } = stored.approvals;
    const statusOf = async (id: number) => (await api('GET', `/v1/approvals/${id}`)).status;
    expect(await statusOf(open.id)).toBe('pending');
    expect(await statusOf(granted.id)).toBe('approved');
    expect(await statusOf(denied.id)).toBe('denied');
    expect(await reasonOf('/v1/actions/preflight', standing.action, stored.developerKey)).toBe(
      'allow approval.satisfied',
    );
    await api('POST', `/v1/approvals/${open.id}/decide`, { action: 'approve' }, stored.approverKey);
    expect(await statusOf(open.id)).toBe('approved');
  });

  it('refuses stored passports that were revoked or used', async () => {
    const { unusedHigh, usedHigh, revoked } = stored.passports;
    const codes = async (passport: string) => {
      const { errors } = (await api('POST', '/v1/passports/verify', { passport })) as unknown as {
        errors: readonly { reason_code: string }[];
      };
      return errors.map(({ reason_code: code }) => code);
    };
    expect(await codes(revoked)).toContain('passport.revoked');
    expect(await codes(usedHigh)).toContain('passport.replay_detected');
    expect(await codes(unusedHigh)).not.toContain('passport.replay_detected');
  });

  it('lets the stored sidecar serve its agent with the stored credential', async () => {
    const before = received.length;
    await until(async () => (await postNote(embedded.sidecar.proxyUrl, '/v1/notes')) === 200);
    expect(received.slice(before)).toContain(`Bearer ${stored.secret}`);
    expect(embedded.sidecar.identity.agentId).toBe(stored.sidecarAgentId);
  });

  it('opens again with this version, and its ledger still verifies', async () => {
    await embedded.close();
    embedded = await startEmbedded(settings(unpacked.dataDir));
    api = apiOf(embedded);
    expect(await preflight('notes.write')).toBe('allow notes.allowed');
    expect(await api('GET', '/v1/evidence/verify')).toMatchObject({ ok: true });
  }, 600_000);
});

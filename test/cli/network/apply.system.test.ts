import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Lab, openLab } from '../../support/network/lab.ts';
import { outsideAddress, podAddress, runIn } from '../../support/network/namespaces.ts';

let lab: Lab;
const sidecar = { uid: 1337 };

beforeAll(async () => {
  lab = await openLab();
  await lab.startSidecar();
});

afterAll(() => lab.close());

afterEach(async () => {
  await lab.network(['remove']);
  await lab.stopOthers();
});

/** Returns all packet filter rules, without counters. */
async function allRules(): Promise<string> {
  const nft = await runIn(lab.namespaces.pod, ['nft', '--stateless', 'list', 'ruleset']);
  return nft.output;
}

async function inPod(...command: readonly string[]): Promise<void> {
  expect(await runIn(lab.namespaces.pod, command)).toMatchObject({ code: 0 });
}

async function apply(...args: readonly string[]): Promise<void> {
  expect(await lab.network(['apply', ...args])).toMatchObject({ code: 0 });
}

describe.each(['nftables', 'iptables'])('`sallyport network` with %s', (backend) => {
  const applied = () => apply('--backend', backend);

  it('changes nothing and loses no packet when the rules are applied again', async () => {
    await applied();
    const rules = await allRules();
    await lab.startOutside('udp_echo', ['7000']);
    const stream = await lab.startAgent('echoes', [outsideAddress, '7000'], sidecar);
    stream.begin();
    for (let round = 0; round < 3; round++) {
      const { code, output } = await lab.network(['apply', '--backend', backend]);
      expect([code, output]).toEqual([0, expect.stringContaining(`Already active (${backend})`)]);
    }
    expect(await stream.act()).toBe('0 lost');
    expect(await allRules()).toBe(rules);
    expect(await lab.network(['check'])).toMatchObject({ code: 0 });
  });

  it('replaces rules that have other settings; the result equals a first application', async () => {
    await applied();
    const rules = await allRules();
    await apply('--backend', backend, '--uid', '2000', '--port', '16001', '--dns-port', '16053');
    expect(await allRules()).not.toBe(rules);
    await applied();
    expect(await allRules()).toBe(rules);
  });

  it("allows packets of the sidecar's user, and lets its connections close cleanly", async () => {
    await applied();
    const server = await lab.startOutside('tcp_server', ['7001']);
    await lab.arrived();
    const connection = await lab.startAgent(
      'closing_tcp_before',
      [outsideAddress, '7001'],
      sidecar,
    );
    await connection.act();
    expect(await server.readLine()).toBe('end escape of the agent');
    const query = await lab.startAgent('udp', ['8.8.8.8', '53'], sidecar);
    await query.act();
    expect(await lab.arrived()).toContain(`udp ${podAddress} > 8.8.8.8 port 53`);
  });

  it('lets a server in the pod answer connections from other hosts', async () => {
    await applied();
    const client = await lab.startOutside('connect_to_pod', ['7002']);
    const server = await lab.startAgent('answer_inbound', ['7002']);
    await server.act();
    expect(await client.readLine()).toBe('connected');
    expect(await client.readLine()).toBe('end escape of the agent');
  });

  it('removes its own rules and no others', async () => {
    await inPod('iptables', '-A', 'OUTPUT', '-d', '192.0.2.77', '-j', 'ACCEPT');
    await inPod('iptables', '-t', 'nat', '-A', 'OUTPUT', '-d', '192.0.2.77', '-j', 'ACCEPT');
    await lab.network(['check', '--backend', 'iptables']);
    const saved = async () => {
      const { output } = await runIn(lab.namespaces.pod, [
        'sh',
        '-c',
        'iptables-save; ip6tables-save',
      ]);
      return output.split('\n').filter((line) => line.startsWith('-A'));
    };
    const rules = await saved();
    await applied();
    const { code, output } = await lab.network(['remove']);
    expect([code, output]).toEqual([0, `Removed (${backend}).\n`]);
    expect(await saved()).toEqual(rules);
    expect(await lab.network(['remove'])).toEqual({ code: 0, output: 'No rules to remove.\n' });
    await inPod('iptables', '-F');
    await inPod('iptables', '-t', 'nat', '-F');
    await lab.arrived();
    await (await lab.startAgent('udp', ['8.8.8.8', '443'])).act();
    expect(await lab.arrived()).toEqual([`udp ${podAddress} > 8.8.8.8 port 443`]);
  });

  it('reports each setting that differs, with a reason code for this setting', async () => {
    await applied();
    const { code, output } = await lab.network(['check', '--uid', '2000', '--dns-port', '16053']);
    expect(code).toBe(1);
    expect(output.split('\n')).toEqual([
      expect.stringMatching(/^network\.uid_differs: .*user id 1337, expected 2000/),
      expect.stringMatching(/^network\.port_differs: .*15001 and 16053/),
      '',
    ]);
  });

  it('reports missing rules', async () => {
    const { code, output } = await lab.network(['check', '--backend', backend]);
    expect([code, output]).toEqual([1, expect.stringMatching(/^network\.rules_missing: /)]);
  });
});

describe.each([
  [
    'nftables',
    'a redirect without a filter',
    'nft flush chain inet sallyport outgoing',
    'filter_missing',
  ],
  [
    'nftables',
    'a filter without a redirect',
    'nft flush chain inet sallyport to_sidecar',
    'redirect_missing',
  ],
  ['nftables', 'an added rule', 'nft insert rule inet sallyport permitted accept', 'rules_changed'],
  ['nftables', 'an added chain', 'nft add chain inet sallyport more', 'rules_changed'],
  [
    'nftables',
    'another policy',
    'nft add chain inet sallyport forwarded { policy accept ; }',
    'rules_changed',
  ],
  ['iptables', 'a redirect without a filter', 'iptables -F SALLYPORT_OUTGOING', 'filter_missing'],
  [
    'iptables',
    'a filter that is not used',
    'ip6tables -D OUTPUT -j SALLYPORT_OUTGOING',
    'filter_missing',
  ],
  [
    'iptables',
    'a filter without a redirect',
    'ip6tables -t nat -F SALLYPORT_TO_SIDECAR',
    'redirect_missing',
  ],
  [
    'iptables',
    'an added rule',
    'ip6tables -t mangle -I SALLYPORT_LEAVING -j ACCEPT',
    'rules_changed',
  ],
  ['iptables', 'a rule before the filter', 'iptables -I OUTPUT -j ACCEPT', 'rules_shadowed'],
])('`sallyport network check` with %s', (backend, difference, command, code) => {
  it(`reports ${difference} as network.${code}, and apply repairs it`, async () => {
    await apply('--backend', backend);
    await inPod(...command.split(' '));
    const found = await lab.network(['check']);
    expect(found.code).toBe(1);
    expect(found.output).toMatch(new RegExp(`^network\\.${code}: `));
    await apply('--backend', backend);
    expect(await lab.network(['check'])).toMatchObject({ code: 0 });
    await runIn(lab.namespaces.pod, ['iptables', '-D', 'OUTPUT', '-j', 'ACCEPT']);
  });
});

describe('`sallyport network apply` refuses', () => {
  const hidden = (names: readonly string[]) =>
    names.map((name) => `mount --bind /dev/null /usr/sbin/${name}`).join(' && ');
  const without = (names: readonly string[]) => [
    'unshare',
    '-m',
    'sh',
    '-c',
    `${hidden(names)} && exec "$@"`,
    'sh',
  ];
  const noCapabilities = ['setpriv', '--inh-caps=-all', '--bounding-set=-all'];

  it('a machine without nft and iptables', async () => {
    const { code, output } = await lab.network(['apply'], { by: without(['nft', 'iptables']) });
    expect([code, output]).toEqual([
      1,
      expect.stringMatching(/network\.tool_missing: .* Install /),
    ]);
  });

  it('a backend whose program is missing, though another one is installed', async () => {
    const by = without(['nft']);
    const { code, output } = await lab.network(['apply', '--backend', 'nftables'], { by });
    expect([code, output]).toEqual([
      1,
      expect.stringContaining('backend nftables are not installed'),
    ]);
    const fallback = await lab.network(['apply'], { by });
    expect(fallback.output).toMatch(/^Applied \(iptables\)/);
  });

  it.each(['apply', 'check', 'remove'])('a user without NET_ADMIN: %s', async (command) => {
    const { code, output } = await lab.network([command], { by: noCapabilities });
    expect([code, output]).toEqual([
      1,
      expect.stringMatching(/network\.not_permitted: .* NET_ADMIN/),
    ]);
  });

  it('a kernel that does not support a rule', async () => {
    // The user namespace does not map the id 4294967294, so the kernel refuses a rule that matches
    // this id.
    const by = ['unshare', '--user', '--map-root-user', '--net'];
    const { code, output } = await lab.network(['apply', '--backend', 'iptables'], { by });
    expect([code, output]).toEqual([1, expect.stringMatching(/network\.kernel_unsupported: /)]);
  });

  it.each([
    [['--uid', '0'], '--uid is "0"'],
    [['--uid', 'sidecar'], '--uid is "sidecar"'],
    [['--port', '65536'], '--port is "65536"'],
    [['--dns-port', '15001'], 'must differ'],
    [['--port', '53'], 'neither can be 53'],
  ])('the options %j', async (options, reason) => {
    const { code, output } = await lab.network(['apply', ...options]);
    expect([code, output]).toEqual([1, expect.stringContaining(reason)]);
    expect(output).toContain('network.option_invalid');
    expect(await lab.network(['check'])).toMatchObject({ code: 1 });
  });
});

it('a packet socket bypasses the rules, so the agent must not have NET_RAW', async () => {
  await apply();
  await lab.arrived();
  const agent = await lab.startAgent('packet_socket', [], { capabilities: ['net_raw'] });
  await agent.act();
  expect(await lab.arrived()).toHaveLength(1);
});

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Lab, openLab } from '../../support/network/lab.ts';
import { runIn } from '../../support/network/namespaces.ts';

let lab: Lab;

beforeAll(async () => {
  lab = await openLab();
});

afterAll(() => lab.close());

afterEach(async () => {
  await lab.network(['remove']);
  await lab.stopSidecar();
  await lab.stopOthers();
});

async function apply(backend = 'nftables'): Promise<void> {
  expect(await lab.network(['apply', '--backend', backend])).toMatchObject({ code: 0 });
}

/**
 * Returns a command that runs a program as this user. The program may read the files of this
 * repository, wherever it is, and has no other privilege.
 */
function asUser(uid: number): readonly string[] {
  const read = 'dac_read_search';
  return [
    'setpriv',
    `--reuid=${uid}`,
    '--clear-groups',
    `--inh-caps=-all,+${read}`,
    `--bounding-set=-all,+${read}`,
    `--ambient-caps=+${read}`,
  ];
}

async function codesOf(...args: readonly string[]): Promise<readonly string[]> {
  const { code, output } = await lab.network(['validate', ...args], { by: asUser(65_534) });
  expect(code).toBe(1);
  return [...output.matchAll(/network\.\w+(?=:)/g)].map(([found]) => found);
}

async function inPod(command: string): Promise<void> {
  expect(await runIn(lab.namespaces.pod, ['sh', '-c', command])).toMatchObject({ code: 0 });
}

describe('`sallyport network validate`', () => {
  it.each(['nftables', 'iptables'])(
    'succeeds with the rules of %s and a sidecar',
    async (backend) => {
      await lab.startSidecar();
      await apply(backend);
      const { code, output } = await lab.network(['validate'], { by: asUser(65_534) });
      expect([code, output]).toEqual([0, expect.stringMatching(/^IPv4 and IPv6: /)]);
      expect(await lab.arrived()).toEqual([]);
    },
  );

  it('waits for a sidecar that is starting', async () => {
    await apply();
    const validated = lab.network(['validate', '--timeout', '2m'], { by: asUser(65_534) });
    await lab.startSidecar();
    expect(await validated).toMatchObject({ code: 0 });
  });

  it('fails without a sidecar', async () => {
    await apply();
    expect(new Set(await codesOf('--timeout', '1ms'))).toEqual(
      new Set(['network.sidecar_not_listening']),
    );
  });

  it("fails if another user listens on the sidecar's ports", async () => {
    await apply();
    await lab.startSidecar({ uid: 2000 });
    expect(new Set(await codesOf('--timeout', '1ms'))).toEqual(
      new Set(['network.sidecar_not_listening']),
    );
  });

  it('fails without rules, though another host answers like the sidecar', async () => {
    await lab.startSidecar();
    await lab.startOutside('http_stranger', []);
    const { code, output } = await lab.network(['validate'], { by: asUser(65_534) });
    expect(code).toBe(1);
    expect(output).toContain(
      'network.not_redirected: IPv4, connection to 192.0.2.1 port 80: answered by a process outside',
    );
    expect(output).toContain(
      'network.not_redirected: IPv6, connection to 2001:db8::1 port 80: answered by a process outside',
    );
    expect(output).toContain('network.dns_not_redirected: IPv4');
    expect(output).toContain('network.filter_missing: IPv6');
  });

  it('fails if only IPv4 is redirected', async () => {
    await lab.startSidecar();
    await apply('iptables');
    await inPod('ip6tables -t nat -F SALLYPORT_TO_SIDECAR');
    expect(await codesOf()).toEqual(['network.not_redirected', 'network.dns_not_redirected']);
  });

  it('fails if connections are redirected and other packets are not rejected', async () => {
    await lab.startSidecar();
    await apply();
    await inPod(
      'nft flush chain inet sallyport permitted; nft insert rule inet sallyport permitted accept; nft flush chain inet sallyport outgoing; nft add rule inet sallyport outgoing accept',
    );
    expect(await codesOf()).toEqual(['network.filter_missing', 'network.filter_missing']);
  });

  it('fails if everything except DNS queries over UDP is redirected', async () => {
    await lab.startSidecar();
    await apply();
    await inPod('nft insert rule inet sallyport to_sidecar udp dport 53 return');
    expect(await codesOf()).toEqual(['network.dns_not_redirected', 'network.dns_not_redirected']);
  });

  it("refuses to run as the sidecar's user, whose packets are not redirected", async () => {
    const { code, output } = await lab.network(['validate'], { by: asUser(1337) });
    expect([code, output]).toEqual([1, expect.stringContaining('network.same_uid')]);
  });

  it('fails in a network namespace without routes', async () => {
    const { code, output } = await lab.network(['validate'], { by: ['unshare', '--net'] });
    expect([code, output]).toEqual([1, expect.stringContaining('network.no_route')]);
  });
});

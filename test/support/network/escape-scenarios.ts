import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Lab } from './lab.ts';
import { outsideAddress, python, runIn } from './namespaces.ts';

export type Apply = (...args: readonly string[]) => Promise<void>;

export interface EscapeScenario {
  /** Unique. */
  readonly title: string;
  /** The result with the rules. No frame leaves the pod. */
  readonly observed: 'sidecar' | 'rejected' | 'silence';
  /** Applies the rules at the right moment, and returns what the agent observed. */
  play(lab: Lab, apply: Apply): Promise<string>;
}

/**
 * A rule of another program, which makes the kernel track connections before Sallyport's rules
 * exist.
 */
const trackConnections = [
  'nft',
  'add table inet other; add chain inet other out { type filter hook output priority 10; }; add rule inet other out ct state new',
];

async function oldConnection(lab: Lab, apply: Apply, program: string): Promise<string> {
  const agent = await lab.startAgent(program, [outsideAddress, '9000']);
  await apply();
  await lab.arrived();
  return agent.act();
}

/** Attempts that depend on earlier events. The rules are not active when such an attempt begins. */
export const escapeScenarios: readonly EscapeScenario[] = [
  {
    title: 'a TCP connection opened before the rules',
    observed: 'rejected',
    async play(lab, apply) {
      await lab.startOutside('tcp_server', ['9000']);
      return oldConnection(lab, apply, 'open_tcp_before');
    },
  },
  {
    title: 'a tracked TCP connection opened before the rules',
    observed: 'rejected',
    async play(lab, apply) {
      await lab.startOutside('tcp_server', ['9000']);
      await runIn(lab.namespaces.pod, trackConnections);
      return oldConnection(lab, apply, 'open_tcp_before');
    },
  },
  {
    title: 'data of a tracked TCP connection that is closed at once',
    observed: 'silence',
    async play(lab, apply) {
      await lab.startOutside('tcp_server', ['9000']);
      await runIn(lab.namespaces.pod, trackConnections);
      return oldConnection(lab, apply, 'closing_tcp_before');
    },
  },
  {
    title: 'a UDP socket connected before the rules',
    observed: 'rejected',
    async play(lab, apply) {
      await lab.startOutside('udp_echo', ['9000']);
      await runIn(lab.namespaces.pod, trackConnections);
      return oldConnection(lab, apply, 'open_udp_before');
    },
  },
  {
    title: 'answers on a connection that another host opened before the rules',
    observed: 'rejected',
    async play(lab, apply) {
      await runIn(lab.namespaces.pod, trackConnections);
      await lab.startOutside('connect_to_pod', ['9001']);
      const agent = await lab.startAgent('accepted_before', ['9001']);
      await apply();
      await lab.arrived();
      return agent.act();
    },
  },
  {
    title: 'answers on such a connection that was not tracked, when the other host speaks',
    observed: 'rejected',
    async play(lab, apply) {
      await lab.startOutside('talk_to_pod', ['9002']);
      const agent = await lab.startAgent('accepted_and_asked', ['9002']);
      await apply();
      await lab.arrived();
      return agent.act();
    },
  },
  {
    title: "UDP from the port of a finished query of the sidecar, to the sidecar's resolver",
    observed: 'rejected',
    async play(lab, apply) {
      await apply();
      await lab.startOutside('udp_echo', ['5300']);
      const args = [outsideAddress, '5300', 'port_40000'];
      const sidecar = await lab.startAgent('udp', args, { uid: 1337 });
      if ((await sidecar.act()) !== 'answered')
        throw new Error("the sidecar's query has no answer");
      await lab.arrived();
      return (await lab.startAgent('udp', args)).act();
    },
  },
  {
    title: "a setuid program of the sidecar's user",
    observed: 'sidecar',
    async play(lab, apply) {
      await apply();
      await lab.arrived();
      const folder = mkdtempSync(join(tmpdir(), 'setuid-'));
      const program = join(folder, 'python3');
      try {
        copyFileSync(python, program);
        chownSync(program, 1337, 1337);
        chmodSync(program, 0o4755);
        chmodSync(folder, 0o755);
        const agent = await lab.startAgent('tcp', ['8.8.8.8', '443'], { python: program });
        return await agent.act();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  },
  {
    title: 'TCP, UDP and DNS without a pause while the rules are replaced',
    observed: 'sidecar',
    async play(lab, apply) {
      await apply();
      await lab.arrived();
      const agent = await lab.startAgent('load', ['8.8.8.8', '443']);
      agent.begin();
      for (let round = 0; round < 5; round++) {
        await apply('--dns-port', '15054');
        await apply('--dns-port', '15053');
      }
      const seen = await agent.act();
      return seen.includes('sidecar') && !seen.includes('answered') ? 'sidecar' : seen;
    },
  },
  {
    title: 'TCP after the sidecar was killed',
    observed: 'rejected',
    async play(lab, apply) {
      await apply();
      await lab.arrived();
      await lab.stopSidecar();
      try {
        return await (await lab.startAgent('tcp', ['8.8.8.8', '443'])).act();
      } finally {
        await lab.startSidecar();
      }
    },
  },
  {
    title: 'packets of another network namespace that is routed through the pod',
    observed: 'silence',
    async play(lab, apply) {
      await apply();
      await lab.arrived();
      return routedThrough(lab);
    },
  },
];

/** Sends a UDP packet from a network namespace behind the pod. */
async function routedThrough({ namespaces: { pod } }: Lab): Promise<string> {
  const inner = `${pod}-inner`;
  const ip = (args: string) => execFileSync('ip', args.split(' '));
  ip(`netns add ${inner}`);
  try {
    ip(`link add eth0 netns ${inner} type veth peer name inner netns ${pod}`);
    ip(`-n ${pod} addr add 10.78.0.1/24 dev inner`);
    ip(`-n ${pod} link set inner up`);
    ip(`-n ${inner} addr add 10.78.0.2/24 dev eth0`);
    ip(`-n ${inner} link set eth0 up`);
    ip(`-n ${inner} route add default via 10.78.0.1`);
    const send = "import socket; socket.socket(2, 2).sendto(b'escape', ('8.8.8.8', 443))";
    const { code, output } = await runIn(inner, [python, '-c', send]);
    if (code !== 0) throw new Error(output);
    return 'silence';
  } finally {
    ip(`netns del ${inner}`);
  }
}

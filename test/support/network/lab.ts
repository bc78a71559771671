import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import {
  type Finished,
  type Namespaces,
  openNamespaces,
  python,
  runIn,
  spawnIn,
} from './namespaces.ts';
import { type Recorder, startRecorder } from './recorder.ts';

const root = resolve(import.meta.dirname, '../../..');
const source = (file: string) => readFileSync(resolve(import.meta.dirname, file), 'utf8');
const escapes = source('escapes.py');
const outsideHost = source('outside.py');

export const sidecarUid = 1337;
export const agentUid = 65_534;

export interface Agent {
  /** Default: `agentUid`. */
  readonly uid?: number;
  /** Capabilities, such as `net_raw`. Default: none. */
  readonly capabilities?: readonly string[];
  /** The Python that runs its program. Default: the system's. */
  readonly python?: string;
}

/** A program of the agent that waits before it acts. */
export interface WaitingAgent {
  /** Lets it act, and returns what it observed. */
  act(): Promise<string>;
  /** Lets it act; `act` then ends it. */
  begin(): void;
}

interface NetworkOptions {
  /** With the legacy variant of iptables. */
  readonly isLegacy?: boolean;
  /** A program that starts the command, such as `setpriv`, with its arguments. */
  readonly by?: readonly string[];
}

export interface Lab extends Pick<Recorder, 'arrived'> {
  readonly namespaces: Namespaces;
  /** Runs `sallyport network …` in the pod, as root unless `by` changes that. */
  network(args: readonly string[], options?: NetworkOptions): Promise<Finished>;
  /** Starts the stand-in for the sidecar. */
  startSidecar(options?: { readonly uid?: number }): Promise<void>;
  /** Kills it. */
  stopSidecar(): Promise<void>;
  /**
   * Starts a function of `escapes.py` as the agent. In arguments, `{outside}` is the other
   * namespace, and `{sidecar}` the process id of the sidecar.
   */
  startAgent(name: string, args: readonly string[], agent?: Agent): Promise<WaitingAgent>;
  /** Starts a function of `outside.py` on another host. */
  startOutside(name: string, args: readonly string[]): Promise<OutsideProgram>;
  /** Ends every program except the sidecar. */
  stopOthers(): Promise<void>;
  close(): Promise<void>;
}

/** A program of another host. */
export interface OutsideProgram {
  /** The next line that it prints. */
  readLine(): Promise<string>;
}

/** A pod and the hosts outside, with a recorder of every frame that leaves the pod. */
export async function openLab(): Promise<Lab> {
  const namespaces = await openNamespaces();
  const legacyFolder = linkLegacyPrograms();
  const recorder = await startRecorder(namespaces);
  const running = new Set<ChildProcess>();
  let sidecar: ChildProcess | undefined;
  const start = async (command: readonly string[], awaited: string, namespace = namespaces.pod) => {
    const child = spawnIn(namespace, command);
    running.add(child);
    child.once('exit', () => running.delete(child));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString();
    });
    const readLine = async () => {
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`${command.slice(0, 2).join(' ')} ended: ${errors}`);
      return String(value);
    };
    const first = await readLine();
    if (first !== awaited) throw new Error(`expected ${awaited}, got ${first}`);
    return { child, readLine };
  };
  return {
    namespaces,
    arrived: recorder.arrived,
    network: (args, { isLegacy = false, by = [] } = {}) =>
      runIn(namespaces.pod, [
        ...(isLegacy ? ['env', `PATH=${legacyFolder}:${process.env.PATH}`] : []),
        ...by,
        process.execPath,
        resolve(root, 'cli/main.ts'),
        'network',
        ...args,
      ]),
    async startSidecar({ uid = sidecarUid } = {}) {
      const file = resolve(import.meta.dirname, 'stand-in-sidecar.ts');
      const { child } = await start([process.execPath, file, String(uid)], 'ready');
      sidecar = child;
    },
    async stopSidecar() {
      if (sidecar !== undefined) await end(sidecar);
    },
    async startAgent(name, args, agent = {}) {
      const known = args.map((arg) =>
        arg.replace('{outside}', namespaces.outside).replace('{sidecar}', String(sidecar?.pid)),
      );
      const command = [...asAgent(agent), agent.python ?? python, '-uc', escapes, name, ...known];
      const { child, readLine } = await start(command, 'ready');
      return {
        begin: () => child.stdin.write('begin\n'),
        async act() {
          child.stdin.write('act\n');
          const observed = await readLine();
          await end(child);
          return observed;
        },
      };
    },
    startOutside: (name, args) =>
      start([python, '-uc', outsideHost, name, ...args], 'ready', namespaces.outside),
    stopOthers: async () => {
      await Promise.all([...running].filter((child) => child !== sidecar).map(end));
    },
    async close() {
      await Promise.all([...running].map(end));
      await recorder.close();
      await namespaces.close();
      rmSync(legacyFolder, { recursive: true });
    },
  };
}

/** A folder in which the names of iptables are those of its legacy variant. */
function linkLegacyPrograms(): string {
  const folder = mkdtempSync(join(tmpdir(), 'iptables-legacy-'));
  for (const prefix of ['iptables', 'ip6tables']) {
    for (const suffix of ['', '-save', '-restore']) {
      symlinkSync(`/usr/sbin/${prefix}-legacy${suffix}`, join(folder, `${prefix}${suffix}`));
    }
  }
  return folder;
}

/** What a container runtime does for a container of the agent. */
function asAgent({ uid = agentUid, capabilities = [] }: Agent): readonly string[] {
  const added = capabilities.map((name) => `,+${name}`).join('');
  return [
    'setpriv',
    `--reuid=${uid}`,
    `--regid=${uid}`,
    '--clear-groups',
    `--inh-caps=-all${added}`,
    `--bounding-set=-all${added}`,
    `--ambient-caps=-all${added}`,
    '--no-new-privs',
  ];
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

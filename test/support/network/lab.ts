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

const cli = resolve(import.meta.dirname, '../../../cli/main.ts');
const source = (file: string) => readFileSync(resolve(import.meta.dirname, file), 'utf8');
const escapes = ['observe', 'packets', 'connections', 'privileges']
  .map((name) => source(`agent/${name}.py`))
  .join('');
const outsideHost = source('outside.py');

const sidecarUid = 1337;
const agentUid = 65_534;

export interface Agent {
  /** Default: `agentUid`. */
  readonly uid?: number;
  /** Capabilities, such as `net_raw`. Default: none. */
  readonly capabilities?: readonly string[];
  /** The Python interpreter that runs the program. Default: the system's. */
  readonly python?: string;
}

/** A program of the agent that waits before it acts. */
export interface WaitingAgent {
  /** Makes the program act and end. Returns what it observed. */
  act(): Promise<string>;
  /** Makes the program act repeatedly until `act` ends it. */
  begin(): void;
}

interface NetworkOptions {
  /** Uses the legacy variant of iptables. */
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
  /** Kills the stand-in for the sidecar. */
  stopSidecar(): Promise<void>;
  /**
   * Starts a function of `agent/*.py` as the agent. In arguments, `{outside}` stands for the
   * namespace of the other hosts, and `{sidecar}` for the process id of the sidecar.
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
  /** Returns the next line that the program prints. */
  readLine(): Promise<string>;
}

interface Started {
  readonly child: ReturnType<typeof spawnIn>;
  readLine(): Promise<string>;
}

/** The programs that run in the namespaces of a lab. */
class Programs {
  readonly #running = new Set<ChildProcess>();

  /** Resolves when the program prints `ready`. */
  async start(namespace: string, command: readonly string[]): Promise<Started> {
    const child = spawnIn(namespace, command);
    this.#running.add(child);
    child.once('exit', () => this.#running.delete(child));
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
    if (first !== 'ready') throw new Error(`expected ready, got ${first}`);
    return { child, readLine };
  }

  async endAllBut(kept: ChildProcess | undefined): Promise<void> {
    await Promise.all([...this.#running].filter((child) => child !== kept).map(end));
  }
}

function waitingAgent({ child, readLine }: Started): WaitingAgent {
  return {
    begin: () => child.stdin.write('begin\n'),
    async act() {
      child.stdin.write('act\n');
      const observed = await readLine();
      await end(child);
      return observed;
    },
  };
}

/** Creates a pod and the hosts outside, and records every frame that leaves the pod. */
export async function openLab(): Promise<Lab> {
  const namespaces = await openNamespaces();
  const { pod, outside } = namespaces;
  const legacyFolder = linkLegacyPrograms();
  const recorder = await startRecorder(namespaces);
  const programs = new Programs();
  let sidecar: ChildProcess | undefined;
  return {
    namespaces,
    arrived: recorder.arrived,
    network(args, { isLegacy = false, by = [] } = {}) {
      const path = isLegacy ? ['env', `PATH=${legacyFolder}:${process.env.PATH}`] : [];
      return runIn(pod, [...path, ...by, process.execPath, cli, 'network', ...args]);
    },
    async startSidecar({ uid = sidecarUid } = {}) {
      const file = resolve(import.meta.dirname, 'stand-in-sidecar.ts');
      ({ child: sidecar } = await programs.start(pod, [process.execPath, file, String(uid)]));
    },
    async stopSidecar() {
      if (sidecar !== undefined) await end(sidecar);
    },
    async startAgent(name, args, agent = {}) {
      const known = args.map((arg) =>
        arg.replace('{outside}', outside).replace('{sidecar}', String(sidecar?.pid)),
      );
      const program = [agent.python ?? python, '-uc', escapes, name, ...known];
      return waitingAgent(await programs.start(pod, [...asAgent(agent), ...program]));
    },
    startOutside: (name, args) =>
      programs.start(outside, [python, '-uc', outsideHost, name, ...args]),
    stopOthers: () => programs.endAllBut(sidecar),
    async close() {
      await programs.endAllBut(undefined);
      await recorder.close();
      await namespaces.close();
      rmSync(legacyFolder, { recursive: true });
    },
  };
}

/** Creates a folder in which the commands of iptables are those of its legacy variant. */
function linkLegacyPrograms(): string {
  const folder = mkdtempSync(join(tmpdir(), 'iptables-legacy-'));
  for (const prefix of ['iptables', 'ip6tables']) {
    for (const suffix of ['', '-save', '-restore']) {
      symlinkSync(`/usr/sbin/${prefix}-legacy${suffix}`, join(folder, `${prefix}${suffix}`));
    }
  }
  return folder;
}

/**
 * Returns a command that starts a program with the rights that a container runtime gives the
 * agent's container.
 */
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

import { printLines } from '../support/terminal.ts';
import type { Backend, BackendName } from './backend.ts';
import { compareRules } from './compare-rules.ts';
import { iptables } from './iptables.ts';
import { describeProblem, NetworkError } from './network-error.ts';
import { nftables } from './nftables.ts';
import { type Chains, readSettings } from './redirect-rules.ts';

interface RuleOptions {
  readonly uid: string;
  readonly port: string;
  readonly dnsPort: string;
  readonly backend?: BackendName | undefined;
}

const backends: readonly Backend[] = [nftables, iptables];

/** `sallyport network apply`. */
export async function apply(options: RuleOptions): Promise<number> {
  const settings = readSettings(options);
  const backend = await chooseBackend(options.backend);
  const { uid, port, dnsPort } = settings;
  const summary = `user ${uid} is exempt, TCP goes to port ${port}, DNS to port ${dnsPort}`;
  const differences = compareRules(backend, await backend.find(), settings);
  if (differences.length > 0) await backend.install(settings);
  const state = differences.length > 0 ? 'Applied' : 'Already active';
  printLines([`${state} (${backend.name}): ${summary}.`]);
  return 0;
}

/** `sallyport network check`: exits with 1 and one line for each difference. */
export async function check(options: RuleOptions): Promise<number> {
  const settings = readSettings(options);
  const backend = await activeBackend(options.backend);
  const differences = compareRules(backend, await backend.find(), settings);
  if (differences.length === 0) {
    printLines([`The rules are active and complete (${backend.name}).`]);
    return 0;
  }
  printLines(differences.map(describeProblem));
  return 1;
}

/** `sallyport network remove`. */
export async function remove(): Promise<number> {
  const installed = await installedBackends();
  if (installed.length === 0) throw new NetworkError('network.tool_missing');
  const removed: string[] = [];
  for (const backend of installed) {
    if (await removeFrom(backend)) removed.push(backend.name);
  }
  printLines([removed.length === 0 ? 'No rules to remove.' : `Removed (${removed.join(', ')}).`]);
  return 0;
}

async function removeFrom(backend: Backend): Promise<boolean> {
  if ((await findRules(backend)).size === 0) return false;
  await backend.remove();
  return true;
}

/** The rules of a backend; a kernel that does not support the backend has none. */
async function findRules(backend: Backend): Promise<Chains> {
  try {
    return await backend.find();
  } catch (error) {
    const isUnsupported =
      error instanceof NetworkError && error.code === 'network.kernel_unsupported';
    if (isUnsupported) return new Map();
    throw error;
  }
}

/** The backend with this name, or the first one that is installed. */
async function chooseBackend(name: BackendName | undefined): Promise<Backend> {
  const [chosen] = await installedBackends((one) => name === undefined || one.name === name);
  if (chosen !== undefined) return chosen;
  const detail =
    name === undefined ? undefined : `The programs of the backend ${name} are not installed.`;
  throw new NetworkError('network.tool_missing', detail);
}

/**
 * The backend with this name. Without a name: the backend whose rules exist, or else the first one
 * that is installed.
 */
async function activeBackend(name: BackendName | undefined): Promise<Backend> {
  if (name !== undefined) return chooseBackend(name);
  for (const backend of await installedBackends()) {
    if ((await findRules(backend)).size > 0) return backend;
  }
  return chooseBackend(undefined);
}

async function installedBackends(
  isWanted: (backend: Backend) => boolean = () => true,
): Promise<readonly Backend[]> {
  const wanted = backends.filter(isWanted);
  const installed = await Promise.all(wanted.map((backend) => backend.isInstalled()));
  return wanted.filter((_, index) => installed[index]);
}

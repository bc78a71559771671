import { setTimeout as delay } from 'node:timers/promises';
import { printLines } from '../support/terminal.ts';
import { probeDns } from './dns-probe.ts';
import { probeHttp } from './http-probe.ts';
import { listens } from './kernel-sockets.ts';
import { describeProblem, NetworkError, type Problem } from './network-error.ts';
import { type RedirectSettings, readSettings } from './redirect-rules.ts';
import { type Family, hasRoute, rejectsUdp, testAddresses } from './test-address.ts';

const retryMs = 100;

/** `sallyport network validate`: exits with 1 if traffic of this network namespace can bypass the sidecar. */
export async function validate(options: {
  readonly uid: string;
  readonly port: string;
  readonly dnsPort: string;
  readonly timeout: number;
}): Promise<number> {
  const settings = readSettings(options);
  if (process.getuid?.() === settings.uid) throw new NetworkError('network.same_uid');
  const families: Family[] = [];
  for (const family of ['IPv4', 'IPv6'] as const) {
    if (await hasRoute(family)) families.push(family);
  }
  if (families.length === 0) throw new NetworkError('network.no_route');
  const problems = await untilStarted(options.timeout, () => problemsOf(families, settings));
  if (problems.length > 0) {
    printLines(problems.map(describeProblem));
    return 1;
  }
  printLines([
    `${families.join(' and ')}: connections and DNS queries reach the sidecar of user ${settings.uid}, other packets are rejected.`,
  ]);
  return 0;
}

/** Repeats the tests while the sidecar is still starting. Waiting does not solve other problems. */
async function untilStarted(
  timeoutMs: number,
  test: () => Promise<readonly Problem[]>,
): Promise<readonly Problem[]> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const problems = await test();
    const isStarting = problems.some(
      ({ code }) =>
        code === 'network.sidecar_not_listening' || code === 'network.sidecar_unhealthy',
    );
    if (!isStarting || performance.now() > deadline) return problems;
    await delay(retryMs);
  }
}

async function problemsOf(
  families: readonly Family[],
  settings: RedirectSettings,
): Promise<readonly Problem[]> {
  const found = await Promise.all(
    families.map(async (family) => [
      ...(await httpProblems(family, settings)),
      ...(await dnsProblems(family, settings)),
      ...(await filterProblems(family)),
    ]),
  );
  return found.flat();
}

async function httpProblems(family: Family, { uid, port }: RedirectSettings): Promise<Problem[]> {
  const where = `${family}, connection to ${testAddresses[family]} port 80`;
  if (!listens('tcp', { uid, port })) return [notListening(`TCP port ${port}`, uid)];
  try {
    const { acceptedByUid, isAlive } = await probeHttp(family, port);
    if (acceptedByUid !== uid) return [stranger('network.not_redirected', where, acceptedByUid)];
    return isAlive ? [] : [{ code: 'network.sidecar_unhealthy' }];
  } catch (error) {
    return [{ code: 'network.not_redirected', detail: `${where}: ${reasonOf(error)}.` }];
  }
}

async function dnsProblems(family: Family, { uid, dnsPort }: RedirectSettings): Promise<Problem[]> {
  const where = `${family}, DNS query to ${testAddresses[family]}`;
  const code = 'network.dns_not_redirected';
  for (const protocol of ['udp', 'tcp'] as const) {
    if (listens(protocol, { uid, port: dnsPort })) continue;
    return [notListening(`${protocol.toUpperCase()} port ${dnsPort}`, uid)];
  }
  try {
    const { acceptedByUid, agrees } = await probeDns(family, dnsPort);
    if (acceptedByUid !== uid) return [stranger(code, where, acceptedByUid)];
    return agrees ? [] : [{ code, detail: `${where}: UDP and TCP have different answers.` }];
  } catch (error) {
    return [{ code, detail: `${where}: ${reasonOf(error)}.` }];
  }
}

async function filterProblems(family: Family): Promise<Problem[]> {
  if (await rejectsUdp(family)) return [];
  const detail = `${family}: a UDP packet to ${testAddresses[family]} port 9 was not rejected.`;
  return [{ code: 'network.filter_missing', detail }];
}

function notListening(what: string, uid: number): Problem {
  const detail = `No process of user ${uid} listens on ${what}.`;
  return { code: 'network.sidecar_not_listening', detail };
}

function stranger(
  code: 'network.not_redirected' | 'network.dns_not_redirected',
  where: string,
  uid: number | undefined,
): Problem {
  const who = uid === undefined ? 'a process outside of this network namespace' : `user ${uid}`;
  return { code, detail: `${where}: answered by ${who}.` };
}

function reasonOf(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException;
  return name === 'AbortError' || name === 'TimeoutError' ? 'no answer' : (code ?? message);
}

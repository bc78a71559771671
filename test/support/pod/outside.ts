import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { enter, type Namespaces } from '../network/namespaces.ts';
import type { OutsideOptions } from './outside-options.ts';

/** A request that arrived at the host outside. */
export interface Arrived {
  readonly scheme: string;
  readonly method: string;
  readonly host: string;
  readonly url: string;
  /** The address at which it arrived. */
  readonly to: string;
  readonly authorization?: string;
}

/** All hosts outside of a pod, as one process. */
export interface Outside {
  /** PEM file of the authority of its certificate. */
  readonly ca: string;
  readonly arrived: Arrived[];
  close(): Promise<void>;
}

/**
 * Starts `outside-host.ts`. `ports` maps ports of the outside host to the URLs of servers on this
 * machine's loopback.
 */
export async function startOutside(
  namespaces: Namespaces,
  folder: string,
  ports: Readonly<Record<number, string>>,
): Promise<Outside> {
  const authority = loadAuthority({
    dataDir: fs.mkdtempSync(join(folder, 'ca-')),
    clock: systemClock,
  });
  const { key, cert } = authority.leafFor('api.example');
  const [ca, identity] = [join(folder, 'outside-ca.pem'), join(folder, 'outside.pem')];
  fs.writeFileSync(ca, authority.certPem, { mode: 0o644 });
  fs.writeFileSync(identity, `${key}\n${cert}`, { mode: 0o600 });
  const entries: Server[] = [];
  const bridges: OutsideOptions['bridges'][number][] = [];
  for (const [port, url] of Object.entries(ports)) {
    const socket = join(folder, `${port}.sock`);
    entries.push(await forwardSocket(socket, Number(new URL(url).port)));
    bridges.push({ port: Number(port), socket });
  }
  const file = join(import.meta.dirname, 'outside-host.ts');
  const command = [process.execPath, file, JSON.stringify({ identity, bridges })];
  const child = spawn('nsenter', [...enter(namespaces.outside), ...command], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const arrived: Arrived[] = [];
  const lines = createInterface({ input: child.stdout });
  await Promise.race([once(lines, 'line'), exited]);
  if (child.exitCode !== null) throw new Error('the host outside ended');
  lines.on('line', (line) => arrived.push(JSON.parse(line) as Arrived));
  return {
    ca,
    arrived,
    async close() {
      child.kill('SIGKILL');
      await exited;
      for (const entry of entries) entry.close();
    },
  };
}

/** Forwards connections to a Unix socket to a port of this machine's loopback. */
async function forwardSocket(path: string, port: number): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy()).pipe(near);
  });
  server.listen(path);
  await once(server, 'listening');
  return server;
}

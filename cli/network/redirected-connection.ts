import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { acceptedBy } from './kernel-sockets.ts';
import { answerWithinMs, type Family, testAddresses } from './test-address.ts';

export interface RedirectedConnection {
  readonly socket: Socket;
  /**
   * The user whose process accepted the connection on the sidecar's port; undefined if that process
   * is outside this network namespace.
   */
  readonly acceptedByUid: number | undefined;
}

const lookEveryMs = 20;

/**
 * Connects to a port of the test address, and looks up who accepted the connection on
 * `sidecarPort`. Rejects if nobody did.
 */
export async function connectToTest(
  family: Family,
  port: number,
  sidecarPort: number,
): Promise<RedirectedConnection> {
  const signal = AbortSignal.timeout(answerWithinMs);
  const socket = connect({ host: testAddresses[family], port });
  try {
    await once(socket, 'connect', { signal });
    socket.on('error', () => {});
    return { socket, acceptedByUid: await ownerOf(socket, sidecarPort, signal) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** The kernel lists a connection as root's until a process accepts it. */
async function ownerOf(
  { localAddress = '', localPort = 0 }: Socket,
  sidecarPort: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  for (;;) {
    const uid = acceptedBy({ address: localAddress, port: localPort }, sidecarPort);
    if (uid !== 0 || signal.aborted) return uid;
    await delay(lookEveryMs);
  }
}

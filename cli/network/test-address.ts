import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

/** Addresses that belong to no host: TEST-NET-1 (RFC 5737) and the documentation prefix (RFC 3849). */
export const testAddresses = { IPv4: '192.0.2.1', IPv6: '2001:db8::1' } as const;

export type Family = keyof typeof testAddresses;

/** How long one attempt waits for a response. */
export const answerWithinMs = 2_000;

/**
 * Returns a UDP socket that is connected to the test address. Sends nothing. Rejects if there is no
 * route.
 */
export async function udpSocketTo(family: Family, port: number): Promise<Socket> {
  const socket = createSocket(family === 'IPv4' ? 'udp4' : 'udp6');
  try {
    socket.connect(port, testAddresses[family]);
    await once(socket, 'connect');
    return socket;
  } catch (error) {
    socket.close();
    throw error;
  }
}

/**
 * True if this network namespace has a route to the test address. Only the kernel's own answer
 * counts: if a router reports an unreachable network, a route exists.
 */
export async function hasRoute(family: Family): Promise<boolean> {
  try {
    (await udpSocketTo(family, 9)).close();
    return true;
  } catch {
    return false;
  }
}

/**
 * True if a UDP packet to the test address is rejected before it leaves. The kernel then reports
 * EPERM, which has no other cause, to the sender.
 */
export async function rejectsUdp(family: Family): Promise<boolean> {
  const socket = await udpSocketTo(family, 9);
  try {
    // A rejection also arrives as an ICMP error, which is no proof because a router could send it.
    socket.on('error', () => {});
    return await new Promise((resolve) => {
      socket.send('sallyport network validate', (error) => {
        resolve((error as NodeJS.ErrnoException | null)?.code === 'EPERM');
      });
    });
  } finally {
    socket.close();
  }
}

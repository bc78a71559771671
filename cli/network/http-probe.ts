import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connectToTest } from './redirected-connection.ts';
import { answerWithinMs, type Family } from './test-address.ts';

export interface HttpProof {
  /**
   * The user whose process accepted the connection on the sidecar's port; undefined if that process
   * is outside this network namespace.
   */
  readonly acceptedByUid: number | undefined;
  /** True if the sidecar's internal host sent the response. */
  readonly isAlive: boolean;
}

const bodyBytesMax = 1_000;

/**
 * Requests the sidecar's health through a connection to the test address. Rejects if there is no
 * response.
 */
export async function probeHttp(family: Family, sidecarPort: number): Promise<HttpProof> {
  const { socket, acceptedByUid } = await connectToTest(family, 80, sidecarPort);
  try {
    const sent = request({
      path: '/healthz',
      headers: { host: 'sallyport.internal' },
      createConnection: () => socket,
      signal: AbortSignal.timeout(answerWithinMs),
    });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const body = await readBody(response);
    return { acceptedByUid, isAlive: response.statusCode === 200 && isHealth(body) };
  } finally {
    socket.destroy();
  }
}

async function readBody(response: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of response) {
    body += String(chunk);
    if (body.length > bodyBytesMax) break;
  }
  return body;
}

function isHealth(body: string): boolean {
  try {
    return (JSON.parse(body) as { readonly status?: unknown } | null)?.status === 'ok';
  } catch {
    return false;
  }
}

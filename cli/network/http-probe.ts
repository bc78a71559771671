import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connectToTest } from './redirected-connection.ts';
import { answerWithinMs, type Family } from './test-address.ts';

export interface HttpProof {
  /** The user that accepted the connection on the sidecar's port, if that was in this namespace. */
  readonly acceptedByUid: number | undefined;
  /** True if the response is that of the sidecar's internal host. */
  readonly isAlive: boolean;
}

const bodyBytesMax = 1_000;

/** Requests the sidecar's health through a connection to the test address. Rejects without a response. */
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

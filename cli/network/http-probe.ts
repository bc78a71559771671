import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { acceptedBy } from './kernel-sockets.ts';
import { answerWithinMs, type Family, testAddresses } from './test-address.ts';

export interface HttpProof {
  /** The user that accepted the connection on the sidecar's port, if that was in this namespace. */
  readonly acceptedByUid: number | undefined;
  /** True if the response is that of the sidecar's internal host. */
  readonly isAlive: boolean;
}

const bodyBytesMax = 1_000;

/** Requests the sidecar's health through a connection to the test address. Rejects without a response. */
export async function probeHttp(family: Family, port: number): Promise<HttpProof> {
  const agent = new Agent({ keepAlive: true });
  try {
    const sent = request({
      host: testAddresses[family],
      port: 80,
      path: '/healthz',
      headers: { host: 'sallyport.internal' },
      agent,
      signal: AbortSignal.timeout(answerWithinMs),
    });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const { localAddress = '', localPort = 0 } = response.socket;
    // Before the end of the response, because the connection is listed only while it is open.
    const acceptedByUid = acceptedBy({ address: localAddress, port: localPort }, port);
    const body = await readBody(response);
    return { acceptedByUid, isAlive: response.statusCode === 200 && isHealth(body) };
  } finally {
    agent.destroy();
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

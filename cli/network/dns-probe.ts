import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { decode, encode, type Packet, streamDecode, streamEncode } from 'dns-packet';
import { connectToTest } from './redirected-connection.ts';
import { answerWithinMs, type Family, udpSocketTo } from './test-address.ts';

export interface DnsProof {
  /**
   * The user whose process accepted the query over TCP; undefined if that process is outside this
   * network namespace.
   */
  readonly acceptedByUid: number | undefined;
  /** True if the responses over UDP and TCP contain the same address for a random name. */
  readonly agrees: boolean;
}

/**
 * Queries a random name at the test address, over TCP and UDP. The kernel lists the user that
 * accepted the TCP connection. Nobody else can guess the address of a random name, so the same
 * response over UDP comes from the same server. Rejects if there is no response.
 */
export async function probeDns(family: Family, sidecarPort: number): Promise<DnsProof> {
  const question: Packet = {
    type: 'query',
    id: randomBytes(2).readUInt16BE(),
    flags: 0x100,
    questions: [{ type: 'A', name: `${randomBytes(12).toString('hex')}.example` }],
  };
  const { answer, acceptedByUid } = await askTcp(family, question, sidecarPort);
  const addresses = addressesIn(answer);
  const agrees = addresses !== '' && addresses === addressesIn(await askUdp(family, question));
  return { acceptedByUid, agrees };
}

async function askTcp(family: Family, question: Packet, sidecarPort: number) {
  const { socket, acceptedByUid } = await connectToTest(family, 53, sidecarPort);
  const signal = AbortSignal.timeout(answerWithinMs);
  try {
    socket.write(streamEncode(question));
    let received = Buffer.alloc(0);
    while (received.length < 2 || received.length < 2 + received.readUInt16BE()) {
      const [chunk] = (await once(socket, 'data', { signal })) as [Buffer];
      received = Buffer.concat([received, chunk]);
    }
    return { answer: streamDecode(received), acceptedByUid };
  } finally {
    socket.destroy();
  }
}

async function askUdp(family: Family, question: Packet): Promise<Packet> {
  const socket = await udpSocketTo(family, 53);
  try {
    const answered = once(socket, 'message', { signal: AbortSignal.timeout(answerWithinMs) });
    socket.send(encode(question));
    const [message] = (await answered) as [Buffer];
    const answer = decode(message);
    if (answer.id !== question.id) throw new Error('the DNS response has another id');
    return answer;
  } finally {
    socket.close();
  }
}

function addressesIn({ answers = [] }: Packet): string {
  return answers.flatMap((answer) => (answer.type === 'A' ? [answer.data] : [])).join();
}

import fs from 'node:fs';
import { join } from 'node:path';
import { freshDatabase } from '../programs/postgres.ts';
import { until } from '../programs/processes.ts';
import { startRedis } from '../programs/redis.ts';
import { Cleanup, temporaryFolder, testAuthority } from '../sidecar/proxy.ts';
import { type Separate, startSeparate } from '../system/separate.ts';
import { disguisedBindings } from './disguise.ts';
import { disguisePolicy } from './policy.ts';
import { type Recorder, startRecorder } from './recorder.ts';
import { raw } from './request.ts';
import { type Conversation, converse, type Transport, type Way } from './wire.ts';

/** A sidecar as in production, in front of an upstream that keeps every byte. */
export interface LiveStage {
  readonly separate: Separate;
  readonly redisUrl: string;
  readonly recorder: Recorder;
  way(transport: Transport): Way;
  /**
   * Sends a request from the tables over one transport, with the host that belongs to this
   * transport.
   */
  send(transport: Transport, bytes: Buffer): Promise<Conversation>;
  /**
   * Sends an allowed call on a separate connection. Returns the bytes that reached the upstream for
   * this call.
   */
  allowed(transport: Transport): Promise<string>;
  /** Returns the reason codes of the ledger's events, by event id. */
  reasons(): Promise<ReadonlyMap<string, string>>;
  close(): Promise<void>;
}

export async function startLiveStage(devKeys: readonly string[] = []): Promise<LiveStage> {
  const cleanup = new Cleanup();
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const authority = testAuthority(cleanup);
  const caFile = join(temporaryFolder(cleanup), 'ca.crt');
  fs.writeFileSync(caFile, authority.certPem);
  const recorder = await startRecorder(cleanup, authority);
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { NODE_EXTRA_CA_CERTS: caFile, SALLYPORT_LOG_LEVEL: 'warn' },
    devKeys,
  });
  cleanup.add(() => separate.close());
  await configure(separate, recorder);

  const proxyPort = Number(new URL(separate.proxyUrl).port);
  const ca = fs.readFileSync(separate.caPath, 'utf8');
  const way = (transport: Transport): Way => ({
    proxyPort,
    transport,
    authority: `127.0.0.1:${transport === 'tls' ? recorder.tlsPort : recorder.plainPort}`,
    ca,
  });
  const stage: LiveStage = {
    separate,
    redisUrl: redis.url,
    recorder,
    way,
    send: (transport, bytes) => converse(way(transport), dressed(bytes, way(transport))),
    async allowed(transport) {
      recorder.take();
      const { answers } = await stage.send(transport, allowedCall);
      if (answers[0]?.status !== 200) throw new Error(JSON.stringify(answers));
      return recorder.take();
    },
    reasons: () => reasonsOf(separate),
    close: () => cleanup.run(),
  };
  await until('the policy is in force', async () => {
    const { answers } = await stage.send('plain', allowedCall);
    return answers[0]?.status === 200;
  });
  return stage;
}

const allowedCall = raw({
  method: 'POST',
  target: '/v1/payments/pay_1/refund',
  headers: ['Content-Type: application/json'],
  body: '{"amount":50}',
});

async function configure({ api }: Separate, recorder: Recorder): Promise<void> {
  for (const port of [recorder.plainPort, recorder.tlsPort]) {
    for (const { name, ...binding } of disguisedBindings(`127.0.0.1:${port}`)) {
      // An MCP tool's id contains the server's name, so each host needs a separate name.
      const unique = port === recorder.plainPort ? name : `${name}_tls`;
      const { status, body } = await api('PUT', `/v1/runtime/bindings/${unique}`, binding);
      if (status !== 200) throw new Error(JSON.stringify(body));
    }
  }
  const policy = { name: 'disguises', publish: true, rules_json: disguisePolicy };
  const { status, body } = await api('POST', '/v1/policies', policy);
  if (status !== 201) throw new Error(JSON.stringify(body));
}

/**
 * Adapts a request to its transport: inserts the transport's host and, on a plain connection, uses
 * the absolute form.
 */
export function dressed(bytes: Buffer, { transport, authority }: Way): Buffer {
  const origin = transport === 'plain' ? `http://${authority}` : '';
  const text = bytes
    .toString('latin1')
    .replaceAll('api.example.com', authority)
    .replaceAll(/\b([A-Za-z]+) (\/[^ \r\n]*|\*) HTTP\/1\.1\r\n/g, `$1 ${origin}$2 HTTP/1.1\r\n`);
  return Buffer.from(text, 'latin1');
}

async function reasonsOf({ api }: Separate): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  let cursor = '';
  do {
    const { body } = await api('GET', `/v1/evidence/events?limit=1000${cursor}`);
    for (const event of body.events as { id: string; reason_code?: string }[]) {
      found.set(event.id, event.reason_code ?? '');
    }
    cursor = typeof body.next_cursor === 'string' ? `&cursor=${body.next_cursor}` : '';
  } while (cursor !== '');
  return found;
}

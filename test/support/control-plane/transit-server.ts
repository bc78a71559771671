import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/**
 * A TLS server that implements the part of Vault's transit engine that wraps data keys. Keeps every
 * byte that it receives and sends.
 */
export interface TransitServer {
  /** The value of `SALLYPORT_KMS_KEY` for this server's key. */
  readonly key: string;
  readonly token: string;
  /** The requests that arrived, as `<verb> <status>`. */
  readonly asked: readonly string[];
  /**
   * Creates a new version of the server's key. Data that older versions wrapped can still be
   * decrypted.
   */
  rotate(): void;
  /** Makes older key versions unable to decrypt anything (`min_decryption_version`). */
  forgetOlder(): void;
  close(): Promise<void>;
}

export async function startTransitServer(tls: {
  readonly key: string;
  readonly cert: string;
}): Promise<TransitServer> {
  const token = `hvs.${randomBytes(12).toString('base64url')}`;
  const versions = [randomBytes(32)];
  let oldest = 1;
  const asked: string[] = [];
  const wrap = (plaintext: Buffer): string => {
    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', versions.at(-1) ?? '', iv);
    const ct = Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    return `vault:v${versions.length}:${ct.toString('base64')}`;
  };
  const unwrap = (wrapped: string): Buffer => {
    const [, version = '', encoded = ''] = /^vault:v(\d+):(.+)$/.exec(wrapped) ?? [];
    if (Number(version) < oldest) throw new Error('ciphertext version is disallowed');
    const bytes = Buffer.from(encoded, 'base64');
    const key = versions[Number(version) - 1] ?? '';
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), {
      authTagLength: 16,
    });
    decipher.setAuthTag(bytes.subarray(-16));
    return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
  };
  const operations: Readonly<Record<string, (body: Record<string, unknown>) => object>> = {
    'datakey/plaintext': ({ bits }) => {
      const key = randomBytes(Number(bits) / 8);
      return { plaintext: key.toString('base64'), ciphertext: wrap(key) };
    },
    decrypt: ({ ciphertext }) => ({ plaintext: unwrap(String(ciphertext)).toString('base64') }),
    rewrap: ({ ciphertext }) => ({ ciphertext: wrap(unwrap(String(ciphertext))) }),
  };
  const answer = (path: string, given: unknown, body: string) => {
    const verb = /^\/v1\/transit\/(.+)\/sallyport$/.exec(path)?.[1] ?? '';
    const operation = operations[verb];
    if (given !== token) return { verb, status: 403, data: { errors: ['permission denied'] } };
    if (operation === undefined) return { verb, status: 404, data: { errors: [] } };
    try {
      return { verb, status: 200, data: { data: operation(JSON.parse(body)) } };
    } catch (error) {
      // Vault's errors repeat the request, so these errors do, too.
      return { verb, status: 400, data: { errors: [String(error), body] } };
    }
  };
  const server = createServer(tls, async (req, res) => {
    const body = await text(req);
    const { verb, status, data } = answer(req.url ?? '', req.headers['x-vault-token'], body);
    asked.push(`${verb} ${status}`);
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(data));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    key: `vault:https://127.0.0.1:${port}/v1/transit/keys/sallyport`,
    token,
    asked,
    rotate: () => {
      versions.push(randomBytes(32));
    },
    forgetOlder: () => {
      oldest = versions.length;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

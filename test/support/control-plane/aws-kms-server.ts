import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { signAwsRequest } from './sign-aws-request.ts';

/**
 * A TLS server that implements the part of AWS KMS that wraps data keys. Verifies signatures and
 * encryption contexts.
 */
export interface AwsKmsServer {
  readonly endpoint: string;
  readonly arn: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly asked: readonly string[];
  close(): Promise<void>;
}

type Body = Readonly<Record<string, unknown>>;

export async function startAwsKmsServer(tls: {
  readonly key: string;
  readonly cert: string;
}): Promise<AwsKmsServer> {
  const arn = 'arn:aws:kms:eu-central-1:111122223333:key/00000000-0000-4000-8000-000000000000';
  const [accessKeyId, secretAccessKey] = ['AKIDEXAMPLE', randomBytes(20).toString('hex')];
  const asked: string[] = [];
  const box = boxOf(randomBytes(32));
  const operations: Readonly<Record<string, (body: Body) => Body>> = {
    GenerateDataKey: (body) => {
      const key = randomBytes(body.KeySpec === 'AES_256' ? 32 : 0);
      const blob = box.seal(key, body.EncryptionContext);
      return { KeyId: body.KeyId, Plaintext: key.toString('base64'), CiphertextBlob: blob };
    },
    Decrypt: (body) => ({
      KeyId: body.KeyId,
      Plaintext: box.open(body.CiphertextBlob, body.EncryptionContext).toString('base64'),
    }),
    ReEncrypt: (body) => {
      const key = box.open(body.CiphertextBlob, body.SourceEncryptionContext);
      return { CiphertextBlob: box.seal(key, body.DestinationEncryptionContext) };
    },
  };
  const server = createServer(tls, async (req, res) => {
    const body = await text(req);
    const verb = String(req.headers['x-amz-target']).replace(/^TrentService\./, '');
    const sessionToken = req.headers['x-amz-security-token']?.toString();
    const expected = signAwsRequest(
      {
        url: new URL(`https://${req.headers.host}/`),
        headers: {
          'content-type': 'application/x-amz-json-1.1',
          'x-amz-target': `TrentService.${verb}`,
        },
        body,
        region: 'eu-central-1',
        service: 'kms',
        at: dateOf(req.headers['x-amz-date']),
      },
      { accessKeyId, secretAccessKey, sessionToken },
    );
    const answer = (status: number, fields: Body) => {
      asked.push(`${verb} ${status}`);
      res.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' });
      res.end(JSON.stringify(fields));
    };
    if (req.headers.authorization !== expected.authorization) {
      answer(400, { __type: 'InvalidSignatureException' });
      return;
    }
    try {
      answer(200, operations[verb]?.(JSON.parse(body)) ?? {});
    } catch {
      answer(400, { __type: 'InvalidCiphertextException' });
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const endpoint = `https://127.0.0.1:${port}/`;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { endpoint, arn, accessKeyId, secretAccessKey, asked, close };
}

function dateOf(stamp: unknown): Date {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(stamp)) ?? [];
  const [year, month, day, hour, minute, second] = parts;
  return new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
}

function boxOf(key: Buffer) {
  return {
    seal: (plaintext: Buffer, context: unknown): string => {
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, iv);
      cipher.setAAD(Buffer.from(JSON.stringify(context)));
      const ct = [cipher.update(plaintext), cipher.final(), cipher.getAuthTag()];
      return Buffer.concat([iv, ...ct]).toString('base64');
    },
    open: (blob: unknown, context: unknown): Buffer => {
      const bytes = Buffer.from(String(blob), 'base64');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), {
        authTagLength: 16,
      });
      decipher.setAAD(Buffer.from(JSON.stringify(context)));
      decipher.setAuthTag(bytes.subarray(-16));
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
    },
  };
}

import { AwsV4Signer } from 'aws4fetch';
import { z } from 'zod';
import { SettingsError } from '../../../../shared/base/settings.ts';
import type { KmsAccess } from '../../config/config.ts';
import type { Kms } from './kms.ts';
import { postJson, requireTls } from './post-json.ts';

const arnForm = /^arn:aws[\w-]*:kms:(?<region>[a-z0-9-]+):\d{12}:(key|alias)\/[\w/-]+$/;

const madeForm = z.object({ Plaintext: z.base64(), CiphertextBlob: z.base64() });
const decryptedForm = z.object({ Plaintext: z.base64() });
const rewrappedForm = z.object({ CiphertextBlob: z.base64() });

/**
 * Encryption context. It ensures that a data key made for another purpose is not accepted as a
 * master key.
 */
const context = { purpose: 'sallyport-master-key' };

/**
 * Creates a client for the AWS KMS key with this ARN. The credentials need `kms:GenerateDataKey`,
 * `kms:Decrypt` and, for `rewrap`, `kms:ReEncrypt*` on the key.
 */
export function awsKms(arn: string, access: KmsAccess): Kms {
  const { region } = arnForm.exec(arn)?.groups ?? {};
  if (region === undefined) {
    throw new SettingsError(
      'SALLYPORT_KMS_KEY: a key of AWS is named by its ARN, as in aws:arn:aws:kms:eu-central-1:111122223333:key/…',
    );
  }
  const { accessKeyId, secretAccessKey, sessionToken } = access;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw new SettingsError('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are missing.');
  }
  const keys = {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
  };
  const url = URL.parse(access.endpoint ?? `https://kms.${region}.amazonaws.com/`);
  if (url === null) throw new SettingsError('AWS_ENDPOINT_URL_KMS must be a URL.');
  requireTls(url);
  const ask = <Form extends z.ZodType>(operation: string, fields: object, form: Form) => {
    const body = JSON.stringify(fields);
    const headers = {
      'content-type': 'application/x-amz-json-1.1',
      'x-amz-target': `TrentService.${operation}`,
    };
    const request = { url: url.href, headers, body, region, service: 'kms' };
    return postJson(
      'AWS KMS',
      { url, headers: signedHeaders({ ...request, ...keys }), body },
      form,
    );
  };
  return {
    name: `aws:${arn}`,
    async makeKey() {
      const fields = { KeyId: arn, KeySpec: 'AES_256', EncryptionContext: context };
      const { Plaintext, CiphertextBlob } = await ask('GenerateDataKey', fields, madeForm);
      return { key: Buffer.from(Plaintext, 'base64'), wrapped: CiphertextBlob };
    },
    async unwrap(wrapped) {
      // `KeyId` makes AWS reject a ciphertext that another key made.
      const fields = { KeyId: arn, CiphertextBlob: wrapped, EncryptionContext: context };
      return Buffer.from((await ask('Decrypt', fields, decryptedForm)).Plaintext, 'base64');
    },
    async rewrap(wrapped) {
      const fields = {
        CiphertextBlob: wrapped,
        SourceKeyId: arn,
        SourceEncryptionContext: context,
        DestinationKeyId: arn,
        DestinationEncryptionContext: context,
      };
      return (await ask('ReEncrypt', fields, rewrappedForm)).CiphertextBlob;
    },
  };
}

/**
 * Returns the headers of a POST request, with an AWS Signature Version 4 over all headers and the
 * body.
 */
async function signedHeaders(
  request: ConstructorParameters<typeof AwsV4Signer>[0],
): Promise<Record<string, string>> {
  const signer = new AwsV4Signer({ ...request, method: 'POST', allHeaders: true });
  return Object.fromEntries((await signer.sign()).headers);
}

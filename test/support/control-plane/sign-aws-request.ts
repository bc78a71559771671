import { createHash, createHmac } from 'node:crypto';

interface AwsRequest {
  readonly url: URL;
  /** Header names in lower case; all headers are signed. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly region: string;
  readonly service: string;
  readonly at: Date;
}

interface AwsKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/**
 * Returns the headers of a POST request without a query, signed with AWS Signature Version 4 (AWS
 * General Reference, "Signing AWS API requests"). Tests compare this implementation with the
 * library that the product uses.
 */
export function signAwsRequest(
  { url, headers, body, region, service, at }: AwsRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsKeys,
): Record<string, string> {
  const stamp = at.toISOString().replaceAll(/[-:]|\.\d{3}/g, '');
  const day = stamp.slice(0, 8);
  const signed: Record<string, string> = {
    ...headers,
    host: url.host,
    'x-amz-date': stamp,
    ...(sessionToken === undefined ? {} : { 'x-amz-security-token': sessionToken }),
  };
  const names = Object.keys(signed).toSorted();
  const canonical = [
    'POST',
    url.pathname,
    '',
    ...names.map((name) => `${name}:${signed[name]?.trim()}`),
    '',
    names.join(';'),
    sha256(body),
  ].join('\n');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical)].join('\n');
  const key = [day, region, service, 'aws4_request'].reduce<Buffer>(
    (under, part) => hmac(under, part),
    Buffer.from(`AWS4${secretAccessKey}`),
  );
  const signature = hmac(key, text).toString('hex');
  const { host: _, ...sent } = signed;
  return {
    ...sent,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`,
  };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

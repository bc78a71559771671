import type { z } from 'zod';
import { SettingsError } from '../../../../shared/base/settings.ts';
import { KmsError } from './kms-error.ts';

const timeoutMs = 10_000;
const answerBytesMax = 65_536;

type Headers = Readonly<Record<string, string>>;

interface Post {
  readonly url: URL;
  /**
   * A promise is awaited inside `postJson`, because an error of the code that signs the headers may
   * quote a token.
   */
  readonly headers: Headers | Promise<Headers>;
  readonly body: string;
}

/**
 * Sends a request to a KMS. Reads the body only of a successful response, because error bodies may
 * repeat the request.
 */
export async function postJson<Form extends z.ZodType>(
  who: string,
  { url, headers, body }: Post,
  form: Form,
): Promise<z.output<Form>> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: await headers,
      body,
      // Rejects redirects, because only the configured host may receive a key.
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (!response.ok) {
      await response.body?.cancel();
      throw new KmsError(`${who} answered ${response.status}`);
    }
    const text = await response.text();
    if (text.length > answerBytesMax) throw new KmsError(`${who} sent a response that is too long`);
    const answer = form.safeParse(JSON.parse(text));
    if (!answer.success) throw new KmsError(`${who} sent a response in an unknown form`);
    return answer.data;
  } catch (cause) {
    if (cause instanceof KmsError) throw cause;
    throw new KmsError(`${who} request failed: ${reasonOf(cause)}`);
  }
}

/** Returns the code or name of an error. Omits its text, which may quote a response. */
function reasonOf(error: unknown): string {
  const { cause, name } = error as Error & { readonly cause?: { readonly code?: string } };
  return cause?.code ?? name;
}

/** Throws if keys would be sent to the KMS unencrypted, unless the KMS runs on this machine. */
export function requireTls(url: URL): void {
  const isLocal = ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLocal)) return;
  throw new SettingsError('SALLYPORT_KMS_KEY: the KMS must be reached by https.');
}

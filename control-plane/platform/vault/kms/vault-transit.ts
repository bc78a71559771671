import { z } from 'zod';
import { SettingsError } from '../../../../shared/base/settings.ts';
import type { Kms } from './kms.ts';
import { postJson, requireTls } from './post-json.ts';

const keyPath = /^(?<api>\/v1\/[\w/-]+)\/keys\/(?<key>[\w.-]+)$/;

const wrappedForm = z.string().regex(/^vault:v\d+:[A-Za-z0-9+/=]+$/);
const plaintextForm = z.base64();
const madeForm = z.object({
  data: z.object({ plaintext: plaintextForm, ciphertext: wrappedForm }),
});
const decryptedForm = z.object({ data: z.object({ plaintext: plaintextForm }) });
const rewrappedForm = z.object({ data: z.object({ ciphertext: wrappedForm }) });

/**
 * Creates a client for the transit engine of HashiCorp Vault or OpenBao. `text` is the URL of the
 * key, such as `https://vault.example:8200/v1/transit/keys/sallyport`. The token needs only the
 * capability `update` on `datakey/plaintext`, `decrypt` and `rewrap` of that key.
 */
export function vaultTransit(text: string, token: string | undefined): Kms {
  const url = URL.parse(text);
  const { api, key } = keyPath.exec(url?.pathname ?? '')?.groups ?? {};
  if (url === null || api === undefined || key === undefined || url.search + url.hash !== '') {
    throw new SettingsError(
      'SALLYPORT_KMS_KEY: a key of Vault is named as in vault:https://vault.example:8200/v1/transit/keys/sallyport',
    );
  }
  requireTls(url);
  if (token === undefined) {
    throw new SettingsError('SALLYPORT_KMS_TOKEN is missing: set it, or SALLYPORT_KMS_TOKEN_FILE.');
  }
  const ask = <Form extends z.ZodType>(verb: string, body: object, form: Form) => {
    const headers = { 'x-vault-token': token, 'content-type': 'application/json' };
    const post = {
      url: new URL(`${api}/${verb}/${key}`, url),
      headers,
      body: JSON.stringify(body),
    };
    return postJson('Vault', post, form);
  };
  return {
    name: `vault:${url.origin}${url.pathname}`,
    async makeKey() {
      const { data } = await ask('datakey/plaintext', { bits: 256 }, madeForm);
      return { key: Buffer.from(data.plaintext, 'base64'), wrapped: data.ciphertext };
    },
    async unwrap(wrapped) {
      const { data } = await ask('decrypt', { ciphertext: wrapped }, decryptedForm);
      return Buffer.from(data.plaintext, 'base64');
    },
    async rewrap(wrapped) {
      return (await ask('rewrap', { ciphertext: wrapped }, rewrappedForm)).data.ciphertext;
    },
  };
}

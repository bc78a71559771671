import { hash } from 'node:crypto';

/** `sha256:<hex>` of a text (as UTF-8) or of bytes: the form of every hash in API, ledger and policies. */
export function sha256(data: string | Uint8Array): string {
  return `sha256:${hash('sha256', data, 'hex')}`;
}

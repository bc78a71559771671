import type { Separate } from '../support/system/separate.ts';

/** Throws unless the tenant's whole ledger passes verification. */
export async function assertVerifies({ api }: Separate): Promise<void> {
  const { body } = await api('GET', '/v1/evidence/verify');
  if (body.ok !== true) throw new Error(`the ledger does not verify: ${JSON.stringify(body)}`);
}

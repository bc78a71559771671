import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';
import { schemaProblem } from '../../shared/manifest/validator.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Tool } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { manifestOf } from '../records/stored-manifest.ts';

/** Returns the manifest that a human approved, if any. */
export async function approvedManifest(
  tx: Transaction,
  tool: Verified<Tool> | null,
): Promise<NormalisedManifest | undefined> {
  if (tool === null || tool.approvedHash === null) return undefined;
  const { tenantId, name, approvedHash } = tool;
  const version = await tx.toolVersion.findUniqueOrThrow({
    where: { tenantId_name_hash: { tenantId, name, hash: approvedHash } },
  });
  return manifestOf(approvedHash, version.manifest);
}

/** Throws for a schema that does not compile, because with it every call would be refused. */
export function assertUsable({ inputSchema }: NormalisedManifest): void {
  const problem = inputSchema === undefined ? undefined : schemaProblem(inputSchema);
  if (problem === undefined) return;
  throw new GatewayError('args.schema_invalid', { message: `manifest.inputSchema: ${problem}` });
}

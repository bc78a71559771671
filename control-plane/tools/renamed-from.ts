import type { JsonObject } from '../../shared/base/json.ts';
import { sameButName } from '../../shared/manifest/hash.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { readManifest } from '../records/stored-manifest.ts';

/** Newest first; a tool that was renamed was seen not long ago. */
const comparedMax = 1000;

/** The name under which the same tool was registered before, if it shows the same but for its name. */
export async function renamedFrom(
  tx: Transaction,
  tenantId: string,
  manifest: NormalisedManifest,
): Promise<string | undefined> {
  const versions = await tx.toolVersion.findMany({
    where: { tenantId, name: { not: manifest.name } },
    orderBy: { ingestedAt: 'desc' },
    take: comparedMax,
    select: { name: true, manifest: true },
  });
  const shown = { ...manifest } as JsonObject;
  return versions.find((version) => sameButName(readManifest(version.manifest), shown))?.name;
}

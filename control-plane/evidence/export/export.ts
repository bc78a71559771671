import type {
  ExportQuery,
  exportEvidence,
} from '../../../shared/contract/evidence/evidence-export.ts';
import type { BundleEvent } from '../../../shared/ledger/bundle/layout.ts';
import { type ExportPlan, writeExport } from '../../../shared/ledger/bundle/write.ts';
import { dialects } from '../../../shared/ledger/siem/dialects.ts';
import type { Services } from '../../core/services.ts';
import { InclusionProofs } from '../../ledger/export/proofs.ts';
import { type ExportRow, readChainEnds, readRows } from '../../ledger/export/rows.ts';
import { newEvent } from '../../ledger/sealing/new-event.ts';
import type { Checkpoint } from '../../ledger/tree/checkpoint.ts';
import type { Caller } from '../../platform/access/caller.ts';
import type { Reply } from '../../platform/http/route.ts';

interface ExportServices extends Services {
  /** Returns a checkpoint that covers everything sealed so far. */
  checkpointFor(tenantId: string): Promise<Checkpoint>;
}

/**
 * Exports a tenant's ledger as of a new checkpoint. The request is sealed before any data is sent.
 */
export async function exportLedger(
  services: ExportServices,
  caller: Caller,
  { format, dialect, ...filters }: ExportQuery,
): Promise<Reply<typeof exportEvidence>> {
  const { tenantId } = caller;
  const checkpoint = await services.checkpointFor(tenantId);
  const key = await services.signingKeys.active(tenantId, 'export');
  const plan: ExportPlan = {
    tenant: tenantId,
    format,
    dialect: format === 'siem' ? (dialect ?? 'json') : undefined,
    createdAt: new Date(services.clock.now()).toISOString(),
    filters,
    checkpoint: {
      note: checkpoint.note,
      size: checkpoint.size,
      root: `sha256:${checkpoint.root.toString('hex')}`,
    },
    keys: [key.publicJwk, await checkpointKey(services, tenantId, checkpoint)],
  };
  await record(services, caller, plan);
  return {
    headers: {
      'content-type': contentTypeOf(plan),
      'content-disposition': `attachment; filename="${fileName(plan)}"`,
      // Proxies must not store evidence or serve an old copy.
      'cache-control': 'no-store',
    },
    stream: writeExport(plan, sourceOf(services, plan), key),
  };
}

async function checkpointKey(
  { signingKeys }: Pick<Services, 'signingKeys'>,
  tenantId: string,
  { kid }: Checkpoint,
) {
  const keys = await signingKeys.history(tenantId, 'checkpoint');
  const key = keys.find((one) => one.kid === kid);
  if (key === undefined)
    throw new Error(`the signing key ${kid} of the checkpoint is not in the vault`);
  return key.publicJwk;
}

async function record(
  { ledger, clock }: Pick<Services, 'ledger' | 'clock'>,
  { tenantId, principal }: Caller,
  { format, dialect, filters, checkpoint }: ExportPlan,
): Promise<void> {
  const given = Object.entries(filters).filter(([, value]) => value !== undefined);
  const event = newEvent(
    {
      type: 'evidence.exported',
      chainId: 'evidence:exports',
      data: {
        by: principal,
        dialect,
        filters: Object.fromEntries(given),
        format,
        size: checkpoint.size,
      },
    },
    clock,
  );
  await ledger.seal(tenantId, event);
}

function sourceOf({ pool }: Pick<Services, 'pool'>, plan: ExportPlan) {
  const { tenant, filters, format } = plan;
  const upTo = plan.checkpoint.size;
  const chainIds = new Set<string>();
  const isWhole = Object.values(filters).every((value) => value === undefined);
  const proofs =
    format === 'json' && !isWhole ? new InclusionProofs(pool, tenant, upTo) : undefined;
  return {
    async *pages(): AsyncGenerator<readonly BundleEvent[]> {
      for await (const rows of readRows(pool, tenant, { filters, upTo })) {
        for (const { chainId } of rows) chainIds.add(chainId);
        yield withProofs(rows, await proofs?.of(rows.map(({ position }) => position)));
      }
    },
    chains: () => readChainEnds(pool, tenant, { chainIds, upTo }),
  };
}

function withProofs(
  rows: readonly ExportRow[],
  proofs: readonly (readonly string[])[] | undefined,
): readonly BundleEvent[] {
  return rows.map(({ position, prev_hash, event_hash, canonical }, at) => ({
    position,
    prev_hash,
    event_hash,
    canonical,
    proof: proofs?.[at],
  }));
}

function contentTypeOf({ format, dialect = 'json' }: ExportPlan): string {
  switch (format) {
    case 'json':
      return 'application/json; charset=utf-8';
    case 'csv':
      return 'text/csv; charset=utf-8';
    case 'md':
      return 'text/markdown; charset=utf-8';
    case 'siem':
      return dialects[dialect].contentType;
  }
}

function fileName({ tenant, format, dialect, checkpoint }: ExportPlan): string {
  const ending = format === 'siem' ? `${dialect}.log` : format;
  return `evidence-${tenant.replaceAll(/[^A-Za-z0-9._-]/g, '_')}-${checkpoint.size}.${ending}`;
}

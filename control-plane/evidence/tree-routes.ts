import * as contract from '../../shared/contract/evidence/evidence-tree.ts';
import type { Services } from '../core/services.ts';
import { checkpointNow, newestCheckpoint, openStored } from '../ledger/tree/checkpoint.ts';
import { type Checkpoint, checkpointRecord } from '../ledger/tree/checkpoint-record.ts';
import { consistencyProof, inclusionProof } from '../ledger/tree/proofs.ts';
import { readBefore } from '../ledger/tree/stored.ts';
import { entryBytes, tileBytes } from '../ledger/tree/tiles.ts';
import { type Route, route } from '../platform/http/route.ts';

export function treeRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getCheckpoint, async ({ query }, { tenantId }, { headers }) => {
      const kept = query.fresh === 'true' ? undefined : await newestCheckpoint(services, tenantId);
      const checkpoint = kept ?? (await checkpointNow(services, tenantId));
      const isJson = (query.format ?? accepted(headers.accept)) === 'json';
      if (!isJson) return { bytes: checkpoint.note };
      const type = { 'content-type': 'application/json; charset=utf-8' };
      return { bytes: JSON.stringify(checkpointRecord(checkpoint)), headers: type };
    }),
    route(contract.listCheckpoints, async ({ query }, { tenantId }) => ({
      body: await listCheckpoints(services, tenantId, query),
    })),
    route(contract.getInclusionProof, async ({ query }, { tenantId }) => {
      const proved = await inclusionProof(services, tenantId, query);
      const { size, eventHash, leaf } = proved;
      const of = { position: query.position, event_hash: eventHash, leaf_hash: digest(leaf), size };
      return { body: { ...of, ...proofFields(proved) } };
    }),
    route(contract.getConsistencyProof, async ({ query }, { tenantId }) => {
      const proved = await consistencyProof(services, tenantId, query);
      const of = { from: query.from, from_root: digest(proved.fromRoot), to: proved.to };
      return { body: { ...of, ...proofFields(proved) } };
    }),
    route(contract.getEntries, async ({ params }, { tenantId }) => ({
      bytes: await entryBytes(services, tenantId, params.path),
    })),
    route(contract.getTile, async ({ params }, { tenantId }) => ({
      bytes: await tileBytes(services, tenantId, params),
    })),
  ];
}

async function listCheckpoints(
  services: Services,
  tenantId: string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: number | undefined },
) {
  const page = { before: cursor, limit: limit + 1 };
  const stored = await readBefore(services.pool, tenantId, page);
  const shown = stored.slice(0, limit);
  const opened = await Promise.all(shown.map((one) => openStored(services, tenantId, one)));
  const last = stored.length > limit ? shown.at(-1) : undefined;
  return {
    checkpoints: opened.map(checkpointRecord),
    next_cursor: last === undefined ? null : String(last.size),
  };
}

/** Returns the format: JSON if the client accepts JSON and not text, otherwise text. */
function accepted(accept = ''): 'note' | 'json' {
  const isJson = accept.includes('application/json') && !accept.includes('text/plain');
  return isJson ? 'json' : 'note';
}

interface Proved {
  readonly root: Buffer;
  readonly proof: readonly Buffer[];
  readonly checkpoint: Checkpoint | undefined;
}

function proofFields({ root, proof, checkpoint }: Proved) {
  return {
    root: digest(root),
    proof: proof.map((one) => one.toString('base64')),
    checkpoint: checkpoint?.note ?? null,
  };
}

function digest(bytes: Buffer): string {
  return `sha256:${bytes.toString('hex')}`;
}

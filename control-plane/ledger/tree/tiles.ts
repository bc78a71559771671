import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { nodesAt, parseTilePath, tileWidth } from '../../../shared/ledger/tiles.ts';
import { headPosition } from '../reading/read-ledger.ts';
import type { CheckpointServices } from './checkpoint.ts';
import { refuseFork } from './fork.ts';
import { fillNodes, MissingNodes, readEventHashes, readSpan } from './nodes.ts';
import { readNewest } from './stored.ts';

/** Returns one tile: its hashes, 32 bytes each. */
export async function tileBytes(
  services: CheckpointServices,
  tenantId: string,
  { level, path }: { readonly level: number; readonly path: string },
): Promise<Buffer> {
  const { pool } = services;
  const range = await rangeOf(services, tenantId, { level, path });
  return presentOr(services, tenantId, async () => {
    if (level > 0) await fillNodes(pool, tenantId, await headPosition(pool, tenantId));
    return Buffer.concat(await readSpan(pool, tenantId, { level, ...range }));
  });
}

/**
 * Returns the entries of one tile: the data of its leaves, each preceded by its length in two
 * bytes.
 */
export async function entryBytes(
  services: CheckpointServices,
  tenantId: string,
  path: string,
): Promise<Buffer> {
  const range = await rangeOf(services, tenantId, { level: 0, path });
  return presentOr(services, tenantId, async () => {
    const hashes = await readEventHashes(services.pool, tenantId, range);
    return Buffer.concat(hashes.map(entryOf));
  });
}

function entryOf(eventHash: string): Buffer {
  const entry = Buffer.from(eventHash.slice('sha256:'.length), 'hex');
  const length = Buffer.alloc(2);
  length.writeUInt16BE(entry.length);
  return Buffer.concat([length, entry]);
}

/**
 * Returns the range of the tile's hashes within the tile's level. Throws if the tree does not have
 * the tile yet.
 */
async function rangeOf(
  { pool }: CheckpointServices,
  tenantId: string,
  { level, path }: { readonly level: number; readonly path: string },
): Promise<{ readonly start: number; readonly end: number }> {
  const tile = parseTilePath(path);
  if (tile === undefined) {
    throw new GatewayError('request.invalid', {
      message: 'path: must be a tile path such as x001/x234/067.',
    });
  }
  const start = tile.index * tileWidth;
  const end = start + tile.width;
  if (end > nodesAt(level, await headPosition(pool, tenantId))) {
    throw new GatewayError('evidence.tile_not_found');
  }
  return { start, end };
}

async function presentOr(
  services: CheckpointServices,
  tenantId: string,
  read: () => Promise<Buffer>,
): Promise<Buffer> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof MissingNodes)) throw error;
    const newest = await readNewest(services.pool, tenantId);
    const fork = { size: newest?.size ?? 0, problem: error.message };
    return refuseFork(services, tenantId, fork);
  }
}

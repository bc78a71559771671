import { z } from 'zod';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { pageLimit, wholeNumber } from '../base/schemas.ts';

const shared = {
  tag: 'Evidence',
  method: 'GET',
  auth: 'bearer',
  permission: 'evidence.read',
} as const;

const positionMax = 999_999_999_999_999;
const size = wholeNumber(0, positionMax);
const place = wholeNumber(1, positionMax);

const checkpointFields = {
  /** The signed note. */
  checkpoint: z.string(),
  /** Number of events that the checkpoint covers. */
  size: z.number().int(),
  /** `sha256:<hex>` */
  root: z.string(),
  kid: z.string(),
  vkey: z.string(),
  created_at: z.string(),
};
const checkpoint = z.object(checkpointFields);
named('Checkpoint', checkpoint);

const noteExample = `gateway.example/t/acme
3
NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=

— gateway.example/t/acme AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BB
`;
const rootExample = 'sha256:36642e73c2540ab121e3a6bf9545b0a24982cd830eb13d3cd19de3ce6c021ec1';
const checkpointExample = {
  checkpoint: noteExample,
  size: 3,
  root: rootExample,
  kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
  vkey: 'gateway.example/t/acme+00010203+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea',
  created_at: '2026-11-21T10:00:00.000Z',
};

export const getCheckpoint = operation({
  ...shared,
  id: 'getCheckpoint',
  path: '/v1/evidence/checkpoint',
  summary: 'Get the newest signed checkpoint of the ledger',
  description:
    'A C2SP signed note over the Merkle tree (RFC 6962) of all events by position, with the cosignatures of witnesses. `fresh=true` signs a checkpoint over all events sealed so far. With `format=json`, or `Accept: application/json`: `{checkpoint, size, root, kid, vkey, created_at}`.',
  query: z.object({
    fresh: z.enum(['true', 'false']).default('false'),
    format: z.enum(['note', 'json']).optional(),
  }),
  success: {
    status: 200,
    description: 'The note.',
    contentType: 'text/plain; charset=utf-8',
    otherContentTypes: ['application/json'],
    example: noteExample,
  },
  errors: ['evidence.fork'],
});

export const listCheckpoints = operation({
  ...shared,
  id: 'listCheckpoints',
  path: '/v1/evidence/checkpoints',
  summary: 'Signed checkpoints, newest first',
  query: z.object({
    limit: pageLimit,
    /** `next_cursor` of the previous page. */
    cursor: size.optional(),
  }),
  success: {
    status: 200,
    description: 'A page of checkpoints; `next_cursor` is null on the last page.',
    schema: z.object({ checkpoints: z.array(checkpoint), next_cursor: z.string().nullable() }),
    example: { checkpoints: [checkpointExample], next_cursor: null },
  },
  errors: ['evidence.fork'],
});

const proof = z.array(z.string()).readonly();
const proofExample = ['sTeYX/SE+2ANuTEHx3sDZcgNePW0Kd7Q/Zc2HQd5mes='];

export const getInclusionProof = operation({
  ...shared,
  id: 'getInclusionProof',
  path: '/v1/evidence/proof/inclusion',
  summary: 'Prove that an event is in the tree of a checkpoint',
  description:
    'An audit path of RFC 6962 for the leaf at index `position - 1`. The leaf is SHA-256 over a zero byte and the 32 bytes of `event_hash`. Default of `size`: the newest checkpoint that covers the position. `checkpoint` is null if no checkpoint of that size was signed.',
  query: z.object({ position: place, size: place.optional() }),
  success: {
    status: 200,
    description: 'The path, nearest sibling first, in base64.',
    schema: z.object({
      position: z.number().int(),
      event_hash: z.string(),
      leaf_hash: z.string(),
      size: z.number().int(),
      root: z.string(),
      proof,
      checkpoint: z.string().nullable(),
    }),
    example: {
      position: 3,
      event_hash: `sha256:${'2'.repeat(64)}`,
      leaf_hash: `sha256:${'4'.repeat(64)}`,
      size: 3,
      root: rootExample,
      proof: proofExample,
      checkpoint: noteExample,
    },
  },
  errors: ['evidence.position_not_found', 'evidence.size_not_found', 'evidence.fork'],
});

export const getConsistencyProof = operation({
  ...shared,
  id: 'getConsistencyProof',
  path: '/v1/evidence/proof/consistency',
  summary: 'Prove that a larger tree extends a smaller one',
  description:
    'A consistency proof of RFC 6962 between two sizes. Default of `to`: the size of the newest checkpoint. `checkpoint` is null if no checkpoint of that size was signed.',
  query: z
    .object({ from: size, to: size.optional() })
    .refine(({ from, to }) => to === undefined || from <= to, {
      path: ['from'],
      message: 'must not be larger than to',
    }),
  success: {
    status: 200,
    description: 'The proof, in base64.',
    schema: z.object({
      from: z.number().int(),
      from_root: z.string(),
      to: z.number().int(),
      root: z.string(),
      proof,
      checkpoint: z.string().nullable(),
    }),
    example: {
      from: 2,
      from_root: `sha256:${'5'.repeat(64)}`,
      to: 3,
      root: rootExample,
      proof: proofExample,
      checkpoint: noteExample,
    },
  },
  errors: ['evidence.size_not_found', 'evidence.fork'],
});

// The request budget is high, because a client that verifies a whole ledger reads many tiles.
const tile = {
  ...shared,
  isPathOpen: true,
  accessExample: 'own-name',
  budgetPerMinute: 6_000,
  errors: ['evidence.tile_not_found', 'evidence.fork'],
} as const;
const tilePath = z
  .string()
  .regex(/^[x\d/]{3,30}(\.p\/\d{1,3})?$/, 'must be a tile path such as x001/x234/067');

export const getEntries = operation({
  ...tile,
  id: 'getEntries',
  path: '/v1/evidence/tile/entries/{path}',
  summary: 'Get the entries of a tile',
  description:
    'As C2SP `tlog-tiles`: up to 256 entries, each two bytes of length and the 32 bytes of an `event_hash`. The path contains slashes: `x001/x234/067`, or `000.p/5` for a partial tile.',
  params: z.object({ path: tilePath }),
  success: { status: 200, description: 'The entries.', contentType: 'application/octet-stream' },
});

export const getTile = operation({
  ...tile,
  id: 'getTile',
  path: '/v1/evidence/tile/{level}/{path}',
  summary: 'Get a tile of the tree',
  description:
    'As C2SP `tlog-tiles`: up to 256 hashes of every eighth level. The path contains slashes: `x001/x234/067`, or `000.p/5` for a partial tile.',
  params: z.object({
    level: wholeNumber(0, 63),
    path: tilePath,
  }),
  success: { status: 200, description: 'The hashes.', contentType: 'application/octet-stream' },
});

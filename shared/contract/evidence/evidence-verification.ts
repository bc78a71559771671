import { z } from 'zod';
import { text } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { verificationExample, verificationReport } from './evidence.ts';

const shared = { tag: 'Evidence', auth: 'bearer' } as const;

export const verifyAgainstCheckpoint = operation({
  ...shared,
  id: 'verifyAgainstCheckpoint',
  method: 'POST',
  path: '/v1/evidence/verify',
  summary: 'Verify the whole ledger against a checkpoint that you kept',
  description:
    'The checkpoint must be one that this ledger signed and that you stored elsewhere. It reveals changes that the database alone cannot: a ledger rewritten with valid signatures (`rewritten`), and a restored older copy (`rolled_back`).',
  permission: 'evidence.read',
  body: z.strictObject({ checkpoint: z.string().min(1).max(100_000) }),
  bodyExample: {
    checkpoint:
      'gateway.example/t/acme\n42\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n\n— gateway.example/t/acme m9pXdsUTkchYqgTA9AaBkD6wRRxU8z6k…\n',
  },
  success: {
    status: 200,
    description: 'The verification report, with the problems found.',
    schema: verificationReport,
    example: { ...verificationExample, checkpoints: 3 },
  },
  errors: ['args.schema_invalid', 'evidence.checkpoint_invalid'],
});

const verification = z.object({
  /** Position up to which the rows are verified; 0 if they were never verified. */
  position: z.number().int(),
  verified_at: z.string().nullable(),
  /** When the whole ledger was last verified. */
  whole_at: z.string().nullable(),
  problem: verificationReport.shape.problem,
  /** The highest position that was acknowledged to a sidecar, but is missing from the ledger. */
  lost_position: z.number().int().nullable(),
  accepted_position: z.number().int().nullable(),
});
named('LedgerVerification', verification);

const lossExample = {
  position: 8_130,
  verified_at: '2026-11-21T10:00:00.000Z',
  whole_at: '2026-11-21T02:00:00.000Z',
  problem: null,
  lost_position: null,
  accepted_position: null,
};

export const getVerification = operation({
  ...shared,
  id: 'getVerification',
  method: 'GET',
  path: '/v1/evidence/verification',
  summary: 'Get the results of the latest verifications, including automatic ones',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'The verified position, and the problems found.',
    schema: verification,
    example: lossExample,
  },
  errors: [],
});

export const acceptLoss = operation({
  ...shared,
  id: 'acceptLoss',
  method: 'POST',
  path: '/v1/evidence/verification/accept-loss',
  summary: 'Accept the loss after restoring an older copy of the ledger',
  description:
    'Uploads of sidecars that received acknowledgements of later positions are refused (`evidence.rolled_back`) until you accept the loss of all events up to a position. The acceptance is recorded in the ledger, and verification continues to report the loss.',
  permission: 'settings.write',
  body: z.strictObject({
    /** Last position of the accepted loss; at least `lost_position`. */
    position: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
    reason: text(1_000),
  }),
  bodyExample: {
    position: 8_130,
    reason: 'restored from the backup of 02:00 after a disk failure',
  },
  success: {
    status: 200,
    description: 'Uploads of sidecars are accepted again, and the whole ledger is verified again.',
    schema: verification,
    example: { ...lossExample, lost_position: 8_130, accepted_position: 8_130 },
  },
  errors: ['args.schema_invalid'],
});

const waiting = z.object({
  event_id: z.string(),
  type: z.string().nullable(),
  chain_id: z.string().nullable(),
  attempts: z.number().int(),
  last_error: z.string().nullable(),
  since: z.string(),
});

export const listDeadLetters = operation({
  ...shared,
  id: 'listDeadLetters',
  method: 'GET',
  path: '/v1/evidence/dead-letters',
  summary: 'List events whose sealing failed and is being retried',
  description:
    'Sealing is retried every second. Once sealed, they have `"evidence.dead_lettered": true` in their data.',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'Their number, oldest time and last error, with the oldest 100.',
    schema: z.object({
      count: z.number().int(),
      oldest: z.string().nullable(),
      last_error: z.string().nullable(),
      dead_letters: z.array(waiting),
    }),
    example: {
      count: 1,
      oldest: '2026-11-21T10:00:00.000Z',
      last_error: 'could not extend file: No space left on device',
      dead_letters: [
        {
          event_id: 'ev_0198c6a8a6f07cc3a4f2b7d7f4f0a1b2',
          type: 'decision',
          chain_id: 'agent:7',
          attempts: 3,
          last_error: 'could not extend file: No space left on device',
          since: '2026-11-21T10:00:00.000Z',
        },
      ],
    },
  },
  errors: [],
});

export const retryDeadLetters = operation({
  ...shared,
  id: 'retryDeadLetters',
  method: 'POST',
  path: '/v1/evidence/dead-letters/retry',
  summary: 'Retry sealing now',
  permission: 'evidence.write',
  body: z.strictObject({}).optional(),
  bodyExample: {},
  success: {
    status: 200,
    description: 'The number of sealed and of waiting events, and the last error.',
    schema: z.object({
      sealed: z.number().int(),
      count: z.number().int(),
      last_error: z.string().nullable(),
    }),
    example: { sealed: 1, count: 0, last_error: null },
  },
  errors: ['args.schema_invalid'],
});

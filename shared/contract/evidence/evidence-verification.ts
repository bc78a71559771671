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
  summary: 'Verify the whole ledger, and that it still holds what a checkpoint of yours says',
  description:
    'The checkpoint is one that this ledger signed and you kept elsewhere. It shows what nothing in the database can: a ledger that was rewritten with all its signatures (`rewritten`), and an older copy that was restored (`rolled_back`).',
  permission: 'evidence.read',
  body: z.strictObject({ checkpoint: z.string().min(1).max(100_000) }),
  bodyExample: {
    checkpoint:
      'gateway.example/t/acme\n42\nNmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=\n\n— gateway.example/t/acme m9pXdsUTkchYqgTA9AaBkD6wRRxU8z6k…\n',
  },
  success: {
    status: 200,
    description: 'What was verified, and what is wrong where.',
    schema: verificationReport,
    example: { ...verificationExample, checkpoints: 3 },
  },
  errors: ['args.schema_invalid', 'evidence.checkpoint_invalid'],
});

const verification = z.object({
  /** Up to here the rows were verified; 0: never yet. */
  position: z.number().int(),
  verified_at: z.string().nullable(),
  /** When the whole ledger was read last. */
  whole_at: z.string().nullable(),
  problem: verificationReport.shape.problem,
  /** The highest position that was acknowledged to a sidecar and is gone. */
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
  summary: 'What the last verifications found, those that nobody asked for too',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'How far the ledger is verified, and what is wrong with it.',
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
  summary: 'Go on with a ledger that was restored from an older copy',
  description:
    'Sidecars that were told of later positions are refused (`evidence.rolled_back`) until somebody says that what is missing up to a position is lost. That is sealed; what is lost stays lost, and is reported all the same.',
  permission: 'settings.write',
  body: z.strictObject({
    /** Up to here: at least `lost_position`. */
    position: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
    reason: text(1_000),
  }),
  bodyExample: {
    position: 8_130,
    reason: 'restored from the backup of 02:00 after a disk failure',
  },
  success: {
    status: 200,
    description: 'Sidecars are let on again; the whole ledger is verified anew.',
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
  summary: 'Events whose sealing failed, and that wait to be sealed as late',
  description:
    'They are tried again every second. Once sealed they carry `"evidence.dead_lettered": true` in their data.',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'How many, since when, why; the oldest hundred of them.',
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
  summary: 'Try now to seal what waits',
  permission: 'evidence.write',
  body: z.strictObject({}).optional(),
  bodyExample: {},
  success: {
    status: 200,
    description: 'How many of them are sealed now, how many still wait, and why.',
    schema: z.object({
      sealed: z.number().int(),
      count: z.number().int(),
      last_error: z.string().nullable(),
    }),
    example: { sealed: 1, count: 0, last_error: null },
  },
  errors: ['args.schema_invalid'],
});

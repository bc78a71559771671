import { z } from 'zod';
import { publicJwk } from '../../crypto/signing-key.ts';
import { exportFormats } from '../../ledger/bundle/statement.ts';
import { siemDialects } from '../../ledger/siem/dialects.ts';
import { operation } from '../base/operation.ts';
import { rotatablePurposes } from '../keys.ts';
import { jwkExample } from '../passports.ts';
import { evidenceFilters, isInOrder } from './evidence.ts';

const shared = { tag: 'Evidence', auth: 'bearer' } as const;

const exportQuery = z
  .object({
    ...evidenceFilters,
    format: z.enum(exportFormats).default('json'),
    /** The SIEM format; only with `format=siem`, default `json`. */
    dialect: z.enum(siemDialects).optional(),
  })
  .refine(isInOrder, { path: ['from'], message: 'must not be after to' })
  .refine(({ format, dialect }) => dialect === undefined || format === 'siem', {
    path: ['dialect'],
    message: 'is allowed only with format=siem',
  });
export type ExportQuery = z.output<typeof exportQuery>;

const objectSignature = z.object({
  alg: z.enum(['EdDSA', 'ES256']),
  kid: z.string(),
  payload_sha256: z.string(),
  jws: z.string(),
});

const statement = z.object({
  type: z.literal('evidence-export'),
  tenant: z.string(),
  format: z.enum(exportFormats),
  dialect: z.enum(siemDialects).optional(),
  created_at: z.string(),
  filters: z.record(z.string(), z.string()),
  events: z.number().int(),
  /** Number of bytes that precede the statement in the file; `content_sha256` is their hash. */
  bytes: z.number().int(),
  content_sha256: z.string(),
  checkpoint: z.string(),
  keys: z.array(publicJwk),
});

const bundle = z.object({
  bundle: z.literal('sallyport-evidence/1'),
  tenant: z.string(),
  size: z.number().int(),
  events: z.array(
    z.object({
      position: z.number().int(),
      prev_hash: z.string(),
      event_hash: z.string(),
      canonical: z.string(),
      proof: z.array(z.string()).optional(),
    }),
  ),
  chains: z.array(
    z.object({ chain_id: z.string(), seq: z.number().int(), event_hash: z.string() }),
  ),
  statement,
  signature: objectSignature,
});

const hashExample = `sha256:${'2'.repeat(64)}`;

export const exportEvidence = operation({
  ...shared,
  id: 'exportEvidence',
  method: 'GET',
  path: '/v1/evidence/export',
  summary: 'Export the ledger, signed',
  description:
    'Exports the ledger as of a new checkpoint, of any size, as a stream. It ends with a signed statement over all preceding bytes, so that truncation is detectable. `sallyport evidence verify FILE` verifies every format offline. The JSON bundle proves each event: an unfiltered one by the tree root, a filtered one by an inclusion proof for each event. Each export is recorded as `evidence.exported`.',
  permission: 'evidence.export',
  query: exportQuery,
  success: {
    status: 200,
    description:
      'The JSON bundle, or with `format=md`, `csv` or `siem` a list in that format, whose last comment, row or record is the signed statement.',
    contentType: 'application/json; charset=utf-8',
    otherContentTypes: ['text/csv', 'text/markdown', 'application/x-ndjson', 'text/plain'],
    schema: bundle,
    example: {
      bundle: 'sallyport-evidence/1',
      tenant: 'acme',
      size: 1,
      events: [
        {
          position: 1,
          prev_hash: `sha256:${'0'.repeat(64)}`,
          event_hash: hashExample,
          canonical: '{"agent_id":"7","chain_id":"agent:7","…":"…"}',
        },
      ],
      chains: [{ chain_id: 'agent:7', seq: 1, event_hash: hashExample }],
      statement: {
        type: 'evidence-export',
        tenant: 'acme',
        format: 'json',
        created_at: '2026-07-01T09:00:00.000Z',
        filters: {},
        events: 1,
        bytes: 512,
        content_sha256: `sha256:${'3'.repeat(64)}`,
        checkpoint: 'gateway.example/t/acme\n1\n…\n\n— gateway.example/t/acme …\n',
        keys: [jwkExample],
      },
      signature: {
        alg: 'EdDSA',
        kid: jwkExample.kid,
        payload_sha256: `sha256:${'4'.repeat(64)}`,
        jws: 'eyJhbGciOiJFZERTQSIsIi4uLiI6Ii4uLiJ9..c2lnbmF0dXJl',
      },
    },
  },
  errors: ['request.invalid', 'evidence.seal_failed', 'evidence.fork'],
});

/** The purposes of evidence keys; passports and synchronisation have key sets of their own. */
export const evidenceKeyPurposes = ['report', 'export', 'checkpoint', 'certificate'] as const;

const evidenceJwk = publicJwk.extend({
  /** The purpose of the key. */
  purpose: z.enum(rotatablePurposes),
  status: z.enum(['active', 'retired']),
  created_at: z.string(),
  retired_at: z.string().optional(),
});
export type EvidenceJwk = z.output<typeof evidenceJwk>;

export const getEvidenceJwks = operation({
  ...shared,
  id: 'getEvidenceJwks',
  method: 'GET',
  path: '/v1/evidence/jwks',
  summary: 'List the verification keys of the tenant’s evidence',
  description:
    'Active and retired keys: ES256 for reports, Ed25519 for exports, checkpoints and certificates. Retired keys are never removed, because their signatures stay valid. Give the thumbprints to verifiers through a separate channel.',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'A JSON Web Key Set (RFC 7517); the active key of each purpose comes first.',
    contentType: 'application/jwk-set+json',
    schema: z.object({ keys: z.array(evidenceJwk) }),
    example: {
      keys: [
        {
          ...jwkExample,
          purpose: 'export',
          status: 'active',
          created_at: '2026-07-01T09:00:00.000Z',
        },
      ],
    },
  },
  errors: [],
});

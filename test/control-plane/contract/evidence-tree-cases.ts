import { anEvent } from '../../support/ledger/ledger.ts';
import { type Case, type Cases, succeeds, yields } from './case.ts';
import type { Given, Stage } from './stage.ts';

/**
 * Creates a tenant with five events, and deletes the first event if the ledger is to be damaged. Returns the
 * key of the tenant's owner.
 */
async function ledgerOf(stage: Stage, { isDamaged = false } = {}): Promise<string> {
  const { id, key } = await stage.tenant();
  const { ledger, pool } = stage.services;
  await ledger.sealAll(
    id,
    Array.from({ length: 5 }, () => anEvent()),
  );
  if (isDamaged) {
    await pool.query(`BEGIN; SET LOCAL session_replication_role = replica;
      DELETE FROM evidence_row WHERE tenant_id = '${id}' AND position = 1; COMMIT`);
  }
  return key;
}

const on =
  (given: Given = {}): Case['answer'] =>
  async (ask, stage) =>
    ask({ ...given, key: await ledgerOf(stage) });

const fork = (given: Given = {}): Case =>
  yields(500, 'evidence.fork', async (ask, stage) =>
    ask({ ...given, key: await ledgerOf(stage, { isDamaged: true }) }),
  );

/** The only checkpoint of this ledger is not signed with the tenant's key. */
const forgedCheckpoint: Case = yields(500, 'evidence.fork', async (ask, stage) => {
  const { id: tenantId, key } = await stage.tenant();
  await stage.services.db.evidenceCheckpoint.create({
    data: { tenantId, size: 1, note: 'nobody signed this\n' },
  });
  return ask({ key });
});

const malformed = (...queries: readonly string[]): readonly Case[] =>
  queries.map((query) => yields(400, 'request.invalid', (ask) => ask({ query })));

const unreadable = (...all: readonly Given['params'][]): readonly Case[] =>
  all.map((params = {}) => yields(400, 'request.invalid', (ask) => ask({ params })));

const absent = (code: string, ...all: readonly Given[]): readonly Case[] =>
  all.map((given) => yields(404, code, on(given)));

export const evidenceTreeCases: Cases = {
  'GET /v1/evidence/checkpoint': [
    succeeds(200, on()),
    succeeds(200, on({ query: '?fresh=true' })),
    ...malformed('?fresh=yes', '?format=xml'),
    fork(),
    forgedCheckpoint,
  ],
  'GET /v1/evidence/checkpoints': [
    succeeds(200, on()),
    succeeds(200, on({ query: '?limit=1&cursor=100' })),
    ...malformed('?limit=0', '?cursor=x', '?cursor=-1'),
    forgedCheckpoint,
  ],
  'GET /v1/evidence/proof/inclusion': [
    succeeds(200, on({ query: '?position=2' })),
    succeeds(200, on({ query: '?position=2&size=3' })),
    ...malformed('', '?position=0', '?position=1.5', '?position=1&size=x'),
    ...absent(
      'evidence.position_not_found',
      { query: '?position=6' },
      { query: '?position=3&size=2' },
    ),
    ...absent('evidence.size_not_found', { query: '?position=1&size=6' }),
    fork({ query: '?position=1' }),
    fork({ query: '?position=1&size=5' }),
    fork({ query: '?position=2&size=5' }),
  ],
  'GET /v1/evidence/proof/consistency': [
    succeeds(200, on({ query: '?from=0' })),
    succeeds(200, on({ query: '?from=2&to=5' })),
    ...malformed('', '?from=3&to=2', '?from=-1', '?from=1&to='),
    ...absent('evidence.size_not_found', { query: '?from=6' }, { query: '?from=1&to=6' }),
    fork({ query: '?from=2&to=5' }),
  ],
  'GET /v1/evidence/tile/entries/{path}': [
    succeeds(200, on({ params: { path: '000.p/5' } })),
    ...unreadable({ path: '000.p/0' }, { path: '000.p/256' }, { path: 'x000/001' }, { path: '01' }),
    ...absent(
      'evidence.tile_not_found',
      { params: { path: '000' } },
      { params: { path: '000.p/6' } },
      { params: { path: 'x999/x999/x999/x999/999' } },
    ),
    fork({ params: { path: '000.p/5' } }),
  ],
  'GET /v1/evidence/tile/{level}/{path}': [
    succeeds(200, on({ params: { level: 0, path: '000.p/5' } })),
    ...unreadable(
      { level: 64, path: '000' },
      { level: '00', path: '000' },
      { level: 0, path: '0' },
    ),
    ...absent(
      'evidence.tile_not_found',
      { params: { level: 0, path: '000' } },
      { params: { level: 1, path: '000.p/1' } },
      { params: { level: 63, path: '000.p/1' } },
    ),
    fork({ params: { level: 0, path: '000.p/5' } }),
  ],
};

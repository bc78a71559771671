import { randomBytes } from 'node:crypto';
import { createFeed } from '../../../control-plane/ledger/reading/feed.ts';
import { createSigningKeys } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import { startApi } from '../../support/control-plane/api.ts';
import { roomyLimits, routesOf } from '../../support/control-plane/gateway.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type Case, type Cases, failsToWrite, refusesBodies, succeeds, yields } from './case.ts';

const malformed = (...queries: readonly string[]): readonly Case[] =>
  queries.map((query) => yields(400, 'request.invalid', (ask) => ask({ query })));

const filters = malformed(
  ...['chain_id', 'agent_id', 'tool', 'decision', 'reason_code', 'type'].map((name) => `?${name}=`),
  '?decision=dney',
  '?from=yesterday',
  '?to=2026-07-01',
  '?from=2026-07-02T00:00:00Z&to=2026-07-01T00:00:00Z',
);
const twice = yields(400, 'args.ambiguous', (ask) => ask({ query: '?tool=a&tool=b' }));

const noCursor = yields(400, 'evidence.cursor_invalid', (ask) => ask({ query: '?cursor=x' }));

const body = { type: 'custom.note', data: {} };
const expanding = '1e15,'.repeat(19_900);
const padding = 'x'.repeat(900_000);

export const readingCases: Cases = {
  'GET /v1/evidence/events': [
    succeeds(200, (ask) => ask({ query: '?limit=2' })),
    noCursor,
    twice,
    ...filters,
    ...malformed('?limit=0', '?limit=1001'),
  ],
  'POST /v1/evidence/events': [
    succeeds(200, (ask) => ask({ body })),
    ...refusesBodies({ ...body, type: 'decision' }, { ...body, data: undefined }),
    // This body is within the limit. Its canonical form, which writes each number in full, is not.
    yields(400, 'evidence.event_invalid', (ask) =>
      ask({ body: `{"type":"custom.note","data":{"n":[${expanding}1],"text":"${padding}"}}` }),
    ),
    yields(403, 'agent.mismatch', async (ask, { otherAgentsKey, agentId }) =>
      ask({ key: await otherAgentsKey(), body: { ...body, agent_id: agentId } }),
    ),
    failsToWrite('evidence_row', 'evidence.seal_failed', (ask) => ask({ body })),
  ],
  'GET /v1/evidence/stream': [
    // A stream that begins while the process shuts down ends immediately.
    succeeds(200, async (ask, { services }) => {
      await services.feed.close();
      return ask();
    }),
    noCursor,
    twice,
    ...filters,
    yields(503, 'evidence.stream_full', async (ask, { services }) => {
      const full = { ...services, feed: createFeed(services, { followersMax: 0 }) };
      const api = await startApi(routesOf(full), full, { limits: roomyLimits });
      const answer = await ask({ api });
      await api.close();
      return answer;
    }),
  ],
  'GET /v1/evidence/stats': [
    ...['', '?group_by=agent', '?group_by=tool', '?to=2026-07-01T00:00:00Z'].map((query) =>
      succeeds(200, (ask) => ask({ query })),
    ),
    yields(400, 'args.ambiguous', (ask) => ask({ query: '?to=a&to=b' })),
    ...malformed('?group_by=week', '?group_by=', '?from=x', '?to=x', '?tool=a'),
  ],
  'GET /v1/audit': [
    succeeds(200, (ask) => ask({ query: '?limit=2' })),
    noCursor,
    twice,
    ...filters,
    ...malformed('?limit=0'),
  ],
  'GET /v1/audit/export': [
    succeeds(200, (ask) => ask()),
    twice,
    ...filters,
    ...malformed('?format=xml', '?limit=5'),
    yields(400, 'evidence.export_too_large', async (ask, { tenant, services }) => {
      const { id, key } = await tenant();
      const events = Array.from({ length: 10_000 }, () => anEvent({ type: 'policy.published' }));
      await services.ledger.sealAll(id, events);
      return ask({ key });
    }),
    failsToWrite('evidence_row', 'evidence.seal_failed', (ask) => ask()),
    yields(503, 'report.signing_unavailable', async (ask, { tenant, services }) => {
      const { id, key } = await tenant();
      // The private key in the vault was encrypted with a master key that no longer exists.
      const lost = { ...services, vault: createVault(randomBytes(32)) };
      await createSigningKeys(lost).active(id, 'report');
      return ask({ key });
    }),
  ],
};

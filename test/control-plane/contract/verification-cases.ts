import { checkpointNow } from '../../../control-plane/ledger/tree/checkpoint.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type Cases, refusesBodies, succeeds, yields } from './case.ts';
import type { Stage } from './stage.ts';

const tenantId = 'default';

async function checkpointOf({ services }: Stage): Promise<string> {
  await services.ledger.seal(tenantId, anEvent());
  return (await checkpointNow(services, tenantId)).note;
}

export const verificationCases: Cases = {
  'GET /v1/evidence/verify': [succeeds(200, (ask) => ask())],
  'POST /v1/evidence/verify': [
    succeeds(200, async (ask, stage) => ask({ body: { checkpoint: await checkpointOf(stage) } })),
    yields(400, 'evidence.checkpoint_invalid', (ask) => ask({ body: { checkpoint: 'none' } })),
    yields(400, 'evidence.checkpoint_invalid', async (ask, stage) => {
      const note = await checkpointOf(stage);
      return ask({ body: { checkpoint: note.replace(/\n\d+\n/, '\n999999\n') } });
    }),
    yields(400, 'evidence.checkpoint_invalid', async (ask, stage) => {
      const { services } = stage;
      await services.ledger.seal('another', anEvent());
      return ask({ body: { checkpoint: (await checkpointNow(services, 'another')).note } });
    }),
    ...refusesBodies({}, { checkpoint: '' }, { checkpoint: 7 }, { checkpoint: 'a', more: 1 }),
  ],
  'GET /v1/evidence/verification': [succeeds(200, (ask) => ask())],
  'POST /v1/evidence/verification/accept-loss': [
    succeeds(200, (ask) => ask({ body: { position: 1, reason: 'restored' } })),
    ...refusesBodies(
      { position: 0, reason: 'restored' },
      { position: 1.5, reason: 'restored' },
      { position: 1 },
    ),
  ],
  'GET /v1/evidence/dead-letters': [succeeds(200, (ask) => ask())],
  'POST /v1/evidence/dead-letters/retry': [
    succeeds(200, (ask) => ask({ body: {} })),
    succeeds(200, (ask) => ask()),
    ...refusesBodies({ all: true }),
  ],
};

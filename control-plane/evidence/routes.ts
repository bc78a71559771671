import * as contract from '../../shared/contract/evidence.ts';
import { exportEvidence, getEvidenceJwks } from '../../shared/contract/evidence-export.ts';
import { getDecisionFixture } from '../../shared/contract/evidence-fixture.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { appendEvent } from './append-event.ts';
import { listEvents } from './events.ts';
import { exportLedger } from './export/export.ts';
import { evidenceJwks } from './export/jwks.ts';
import { sharedCheckpoints } from './export/shared-checkpoints.ts';
import { decisionFixture } from './fixture.ts';
import { treeRoutes } from './tree/routes.ts';
import { verifyChain } from './verify-chain.ts';

export function evidenceRoutes(services: Services): readonly Route[] {
  const checkpointFor = sharedCheckpoints(services);
  return [
    ...treeRoutes(services),
    route(contract.listEvidenceEvents, async ({ query }, caller) => ({
      body: await listEvents(services, caller.tenantId, query),
    })),
    route(getDecisionFixture, async ({ params, query }, caller) =>
      decisionFixture(services, caller.tenantId, { ...params, ...query }),
    ),
    route(contract.appendEvidenceEvent, async ({ body }, caller) => ({
      body: await appendEvent(services, caller, body),
    })),
    route(contract.verifyEvidence, async (_input, caller) => ({
      body: await verifyChain(services, caller.tenantId),
    })),
    route(exportEvidence, ({ query }, caller) =>
      exportLedger({ ...services, checkpointFor }, caller, query),
    ),
    route(getEvidenceJwks, async (_input, caller) => ({
      body: await evidenceJwks(services, caller.tenantId),
      headers: { 'cache-control': 'no-store' },
    })),
  ];
}

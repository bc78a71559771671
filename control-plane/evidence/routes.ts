import { listAudit as auditOperation, exportAudit } from '../../shared/contract/evidence/audit.ts';
import * as contract from '../../shared/contract/evidence/evidence.ts';
import { exportEvidence, getEvidenceJwks } from '../../shared/contract/evidence/evidence-export.ts';
import { getDecisionFixture } from '../../shared/contract/evidence/evidence-fixture.ts';
import * as reading from '../../shared/contract/evidence/evidence-reading.ts';
import * as verification from '../../shared/contract/evidence/evidence-verification.ts';
import type { Services } from '../core/services.ts';
import { listEvents } from '../ledger/reading/list-events.ts';
import { readVerification } from '../ledger/verification/verification-state.ts';
import { verifyChain } from '../ledger/verification/verify-chain.ts';
import { type Route, route } from '../platform/http/route.ts';
import { acceptLoss, verificationRecord } from './accept-loss.ts';
import { appendEvent } from './append-event.ts';
import { exportTrail } from './audit/export.ts';
import { listAudit } from './audit/trail.ts';
import { listDeadLetters, retryDeadLetters } from './dead-letter-report.ts';
import { exportLedger } from './export/export.ts';
import { evidenceJwks } from './export/jwks.ts';
import { sharedCheckpoints } from './export/shared-checkpoints.ts';
import { exportPolicyCase } from './export-policy-case.ts';
import { openStream } from './open-stream.ts';
import { evidenceStats } from './stats.ts';
import { treeRoutes } from './tree-routes.ts';

export function evidenceRoutes(services: Services): readonly Route[] {
  const checkpointFor = sharedCheckpoints(services);
  return [
    ...treeRoutes(services),
    route(contract.listEvidenceEvents, async ({ query }, caller) => ({
      body: await listEvents(services, caller.tenantId, query),
    })),
    route(reading.streamEvidence, ({ query }, caller, request) =>
      openStream(services, caller, { query, request }),
    ),
    route(reading.evidenceStats, async ({ query }, caller) => ({
      body: await evidenceStats(services, caller.tenantId, query),
    })),
    route(auditOperation, async ({ query }, caller) => ({
      body: await listAudit(services, caller.tenantId, query),
    })),
    route(exportAudit, ({ query }, caller) => exportTrail(services, caller, query)),
    route(getDecisionFixture, async ({ params, query }, caller) =>
      exportPolicyCase(services, caller.tenantId, { ...params, ...query }),
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
    ...verificationRoutes(services),
  ];
}

function verificationRoutes(services: Services): readonly Route[] {
  return [
    route(verification.verifyAgainstCheckpoint, async ({ body }, caller) => ({
      body: await verifyChain(services, caller.tenantId, body),
    })),
    route(verification.getVerification, async (_input, caller) => ({
      body: verificationRecord(await readVerification(services, caller.tenantId)),
    })),
    route(verification.acceptLoss, async ({ body }, caller) => ({
      body: await acceptLoss(services, caller, body),
    })),
    route(verification.listDeadLetters, async (_input, caller) => ({
      body: await listDeadLetters(services, caller.tenantId),
    })),
    route(verification.retryDeadLetters, async (_input, caller) => ({
      body: await retryDeadLetters(services, caller.tenantId),
    })),
  ];
}

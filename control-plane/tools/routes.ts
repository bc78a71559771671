import * as contract from '../../shared/contract/tools.ts';
import type { Drift } from '../../shared/manifest/drift.ts';
import { driftSentence } from '../../shared/manifest/drift-sentence.ts';
import { riskTierOf } from '../../shared/manifest/manifest.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { ingestTool } from './ingest-tool.ts';
import { diffTools, listTools, readTool } from './read-tools.ts';

export function toolRoutes(services: Services): Route[] {
  return [
    route(contract.ingestTool, async ({ body }, caller) => {
      const ingested = await ingestTool(services, caller, body.manifest);
      const { manifest, approvalId } = ingested;
      return {
        body: {
          name: manifest.name,
          manifest_hash: ingested.manifestHash,
          surface_hash: ingested.surfaceHash,
          manifest,
          approval_status: ingested.standing.approvalStatus,
          risk_tier: riskTierOf(manifest),
          drift: inWords(ingested.drift),
          renamed_from: ingested.renamedFrom,
          approval_request_id: approvalId === undefined ? undefined : String(approvalId),
        },
      };
    }),
    route(contract.listTools, async (_input, caller) => ({
      body: { tools: [...(await listTools(services, caller))] },
    })),
    route(contract.getTool, async ({ params }, caller) => {
      const tool = await readTool(services, caller, params.name);
      return { body: { ...tool, drift: inWords(tool.drift) } };
    }),
    route(contract.diffTools, async ({ body }) => {
      const { beforeHash, afterHash, material, drift } = diffTools(body.before, body.after);
      return {
        body: { before_hash: beforeHash, after_hash: afterHash, material, drift: inWords(drift) },
      };
    }),
  ];
}

function inWords(drifts: readonly Drift[]) {
  return drifts.map((drift) => ({ ...drift, sentence: driftSentence(drift) }));
}

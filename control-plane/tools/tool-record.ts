import { riskTiers } from '../../shared/decision/action.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';
import { approvalStatuses, type ToolRecord } from '../../shared/manifest/tool-record.ts';
import { type ArgsValidator, argsValidator } from '../../shared/manifest/validator.ts';

/** A registered tool with its approved manifest, as columns. */
export interface StoredTool {
  readonly name: string;
  readonly manifest_hash: string;
  readonly approved_hash: string | null;
  readonly approval_status: string;
  readonly risk_tier: string;
  readonly drift_reason: string | null;
  /** JSON text. */
  readonly approved_manifest: string | null;
}

// By manifest hash: reading the manifest again for every decision would cost more than deciding.
const validators = new Map<string, ArgsValidator | undefined>();
const validatorsMax = 2_000;

/** A registered tool as a decision sees it; what cannot be read is taken for the worst. */
export function toolRecord(row: StoredTool): ToolRecord {
  return {
    name: row.name,
    manifestHash: row.manifest_hash,
    approvedHash: row.approved_hash ?? undefined,
    approvalStatus:
      approvalStatuses.find((known) => known === row.approval_status) ?? 'reapproval_required',
    riskTier: riskTiers.find((known) => known === row.risk_tier) ?? 'critical',
    driftReason: row.drift_reason ?? undefined,
    validateArgs: validatorOf(row),
  };
}

function validatorOf({
  approved_hash: hash,
  approved_manifest: text,
}: StoredTool): ArgsValidator | undefined {
  if (hash === null) return undefined;
  if (text === null) throw new Error(`the approved manifest ${hash} is gone`);
  if (validators.has(hash)) return validators.get(hash);
  const { inputSchema } = JSON.parse(text) as NormalisedManifest;
  const validator = inputSchema === undefined ? undefined : argsValidator(inputSchema);
  if (validators.size >= validatorsMax) validators.clear();
  validators.set(hash, validator);
  return validator;
}

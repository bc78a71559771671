import { type ArgsValidator, argsValidator } from '../../shared/manifest/validator.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import { approvalStatuses, type ToolRecord } from '../../shared/vocabulary/tool-record.ts';
import type { SignedRow } from '../platform/store/signed-columns.ts';
import { manifestOf } from './stored-manifest.ts';

/** Columns of a registered tool and its approved manifest. */
export type StoredTool = SignedRow<'tool'> & {
  /** The approved manifest as JSON text. */
  readonly approvedManifest: string | null;
};

// Argument validators, cached by manifest hash, because parsing a manifest takes longer than
// deciding.
const validators = new Map<string, ArgsValidator | undefined>();
const validatorsMax = 2_000;

/**
 * A registered tool in the form that decisions use. A value that cannot be read counts as the most
 * restrictive one.
 */
export function toolRecord(row: StoredTool): ToolRecord {
  return {
    name: row.name,
    manifestHash: row.manifestHash,
    approvedHash: row.approvedHash ?? undefined,
    approvalStatus:
      approvalStatuses.find((known) => known === row.approvalStatus) ?? 'reapproval_required',
    riskTier: riskTiers.find((known) => known === row.riskTier) ?? 'critical',
    driftReason: row.driftReason ?? undefined,
    validateArgs: validatorOf(row),
  };
}

function validatorOf({
  approvedHash: hash,
  approvedManifest: text,
}: StoredTool): ArgsValidator | undefined {
  if (hash === null) return undefined;
  if (text === null) throw new Error(`the approved manifest ${hash} is not stored`);
  if (validators.has(hash)) return validators.get(hash);
  const { inputSchema } = manifestOf(hash, text);
  const validator = inputSchema === undefined ? undefined : argsValidator(inputSchema);
  if (validators.size >= validatorsMax) validators.clear();
  validators.set(hash, validator);
  return validator;
}

import { isJsonObject } from '../../base/json.ts';
import { type EventColumns, eventColumns } from '../columns.ts';
import type { EvidenceEvent } from '../event.ts';
import type { LinkedRow, OpenProblem } from './chain-check.ts';

export interface LedgerRow extends LinkedRow {
  /** Absent if the source has no columns, such as an export. */
  readonly columns?: EventColumns | undefined;
}

/**
 * The problem of a row whose hash is correct, but whose text states a different position, or whose
 * columns differ from the text.
 */
export function rowProblem(row: LedgerRow, tenantId: string): OpenProblem | undefined {
  const content = (message: string): OpenProblem => ({
    kind: 'content_mismatch',
    position: row.position,
    chain_id: row.chainId,
    message,
  });
  const sealed = parse(row.canonical);
  if (sealed === undefined) return content('the text is not a JSON object');
  if (sealed.position !== row.position || sealed.seq !== row.seq) {
    return { ...content(`the row was sealed at position ${sealed.position}`), kind: 'reordered' };
  }
  if (sealed.tenant !== tenantId) return content('the row was sealed for another tenant');
  if (sealed.chain_id !== row.chainId) return content('the row was sealed in another chain');
  if (row.columns === undefined) return undefined;
  const wrong = differingColumn(row.columns, eventColumns(sealed), sealed.id);
  return wrong === undefined
    ? undefined
    : content(`column ${wrong} differs from the canonical text`);
}

type SealedText = EvidenceEvent & {
  readonly position: number;
  readonly seq: number;
  readonly tenant: string;
};

function parse(canonical: string): SealedText | undefined {
  try {
    const value: unknown = JSON.parse(canonical);
    // The hash matches, so sealing wrote this text, and its members have the expected types.
    return isJsonObject(value) ? (value as unknown as SealedText) : undefined;
  } catch {
    return undefined;
  }
}

function differingColumn(
  kept: EventColumns,
  recorded: EventColumns,
  id: string,
): string | undefined {
  // Rows sealed before 2026-11-21 hold the bare id, without its source.
  if (kept.eventId !== recorded.eventId && kept.eventId !== id) return 'id';
  if (kept.type !== recorded.type) return 'type';
  if (kept.source !== recorded.source) return 'source';
  if (kept.agentId !== recorded.agentId) return 'agent_id';
  if (kept.tool !== recorded.tool) return 'tool';
  if (kept.decision !== recorded.decision) return 'decision';
  if (kept.reasonCode !== recorded.reasonCode) return 'reason_code';
  return kept.occurredAtMs === recorded.occurredAtMs ? undefined : 'occurred_at';
}

import type { ExportFilters } from '../../shared/ledger/bundle/statement.ts';
import type { RecordedDecision } from '../../shared/ledger/recorded-decisions.ts';

export interface FilterOptions {
  readonly chain?: string;
  readonly agent?: string;
  readonly tool?: string;
  readonly decision?: RecordedDecision;
  readonly reason?: string;
  readonly type?: string;
  readonly from?: string;
  readonly to?: string;
}

const parameters = {
  chain: 'chain_id',
  agent: 'agent_id',
  tool: 'tool',
  decision: 'decision',
  reason: 'reason_code',
  type: 'type',
  from: 'from',
  to: 'to',
} as const satisfies Readonly<Record<keyof FilterOptions, string>>;

/** The filters as query parameters of the API, which validates their values. */
export function filterQuery(options: FilterOptions): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(parameters).flatMap(([option, name]) => {
      const value = options[option as keyof FilterOptions];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** Formats filters for display, such as `agent_id 2, type decision`; empty if there are none. */
export function describeFilters(filters: ExportFilters): string {
  return Object.entries(filters)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

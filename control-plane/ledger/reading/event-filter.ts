import type { ExportFilters } from '../../../shared/ledger/bundle/statement.ts';
import { columnText, type EventColumns } from '../../../shared/ledger/columns.ts';

/**
 * Filters and their columns. Each filter tests one column for equality, and each column has an
 * index.
 */
const columns = {
  chain_id: 'chainId',
  agent_id: 'agentId',
  tool: 'tool',
  decision: 'decision',
  reason_code: 'reasonCode',
  type: 'type',
} as const satisfies Partial<Record<keyof ExportFilters, keyof FilteredColumns>>;
type FilterName = keyof typeof columns;

/** Columns that filters compare. */
export type FilteredColumns = Omit<EventColumns, 'eventId' | 'source'> & {
  readonly chainId: string;
};

/** A client's filters, in a form that both SQL and memory evaluate. */
export interface EventFilter {
  readonly equalities: readonly { readonly column: FilterName; readonly value: string }[];
  /** Bounds in whole milliseconds, which is the resolution of event times. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

export function eventFilter(filters: ExportFilters): EventFilter {
  const { from, to } = filters;
  const names = Object.keys(columns) as FilterName[];
  return {
    equalities: names.flatMap((column) => {
      const value = filters[column];
      return value === undefined ? [] : [{ column, value: columnText(value) }];
    }),
    fromMs: from === undefined ? undefined : Date.parse(from) + Number(isWithinMs(from)),
    toMs: to === undefined ? undefined : Date.parse(to),
  };
}

/** Returns whether the filter accepts every row. */
export function passesAll({ equalities, fromMs, toMs }: EventFilter): boolean {
  return equalities.length === 0 && fromMs === undefined && toMs === undefined;
}

/** Evaluates the filter in memory, with the same result as the SQL condition. */
export function passes({ equalities, fromMs, toMs }: EventFilter, row: FilteredColumns): boolean {
  return (
    equalities.every(({ column, value }) => row[columns[column]] === value) &&
    (fromMs === undefined || row.occurredAtMs >= fromMs) &&
    (toMs === undefined || row.occurredAtMs <= toMs)
  );
}

/** Returns whether a time has non-zero digits below the millisecond, which `Date.parse` drops. */
function isWithinMs(time: string): boolean {
  return /\.\d{3}\d*[1-9]/.test(time);
}

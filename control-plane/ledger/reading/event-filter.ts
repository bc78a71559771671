import type { ExportFilters } from '../../../shared/ledger/bundle/statement.ts';
import { columnText, type EventColumns } from '../../../shared/ledger/columns.ts';

/** Each filter is an equality on one column, and each such column is the first of an index. */
const columns = {
  chain_id: 'chainId',
  agent_id: 'agentId',
  tool: 'tool',
  decision: 'decision',
  reason_code: 'reasonCode',
  type: 'type',
} as const satisfies Partial<Record<keyof ExportFilters, keyof FilteredColumns>>;
type FilterName = keyof typeof columns;

/** What filters look at. */
export type FilteredColumns = Omit<EventColumns, 'eventId' | 'source'> & {
  readonly chainId: string;
};

/** A reader's filters as both the database and memory hold rows against them. */
export interface EventFilter {
  readonly equalities: readonly { readonly column: FilterName; readonly value: string }[];
  /** Whole milliseconds, as events have them: no bound falls between two. */
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

/** Whether every row passes. */
export function passesAll({ equalities, fromMs, toMs }: EventFilter): boolean {
  return equalities.length === 0 && fromMs === undefined && toMs === undefined;
}

/** The same answer as the database gives. */
export function passes({ equalities, fromMs, toMs }: EventFilter, row: FilteredColumns): boolean {
  return (
    equalities.every(({ column, value }) => row[columns[column]] === value) &&
    (fromMs === undefined || row.occurredAtMs >= fromMs) &&
    (toMs === undefined || row.occurredAtMs <= toMs)
  );
}

/** Whether a time lies behind the millisecond that `Date.parse` makes of it. */
function isWithinMs(time: string): boolean {
  return /\.\d{3}\d*[1-9]/.test(time);
}

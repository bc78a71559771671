import type { ExportFilters } from '../../shared/ledger/bundle/statement.ts';
import { recordedDecisions } from '../../shared/ledger/recorded-decisions.ts';
import { oneOf } from './one-of.ts';

/** What events are picked by, as options. */
export const filterOptions = {
  chain: { type: 'string' },
  agent: { type: 'string' },
  tool: { type: 'string' },
  decision: { type: 'string' },
  reason: { type: 'string' },
  type: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
} as const;

const names = {
  chain: 'chain_id',
  agent: 'agent_id',
  tool: 'tool',
  decision: 'decision',
  reason: 'reason_code',
  type: 'type',
  from: 'from',
  to: 'to',
} as const;

type Options = { readonly [Name in keyof typeof names]?: string | undefined };

/** The same as the API names them; except for decisions, the API checks what they may be. */
export function readFilters(options: Options): Readonly<Record<string, string>> {
  if (options.decision !== undefined) oneOf('--decision', recordedDecisions, options.decision);
  return Object.fromEntries(
    Object.entries(names).flatMap(([option, name]) => {
      const value = options[option as keyof typeof names];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** Filters as a person reads them; empty if there are none. */
export function filtersText(filters: ExportFilters): string {
  return Object.entries(filters)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

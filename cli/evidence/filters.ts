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

/** The same as the API names them; what they may be, it says itself. */
export function readFilters(options: Options): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(names).flatMap(([option, name]) => {
      const value = options[option as keyof typeof names];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

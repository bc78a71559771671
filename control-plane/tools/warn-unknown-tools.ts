import { isJsonObject } from '../../shared/base/json.ts';
import { nearestName } from '../../shared/base/nearest-name.ts';
import { type GlobBudget, globsMayIntersect } from '../../shared/glob/glob-intersection.ts';
import { warningsMax } from '../core/bounded-warnings.ts';
import type { Services } from '../core/services.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { misspeltTools, toolsOfServers } from './misspelt-tools.ts';

/** Tool ids and globs from a caller, and their position in the request. */
export interface GivenTools {
  readonly field: string;
  readonly tools: readonly string[];
}

/**
 * Limits on comparison steps. Each limits the work to a few milliseconds, so that other requests
 * are not delayed.
 */
const intersectionStepsMax = 150_000;
const editStepsMax = 150_000;

/**
 * Returns warnings about tools that match no registered, bound or called tool, which is probably a
 * typing error. Never throws, because the change is already committed.
 */
export async function warnUnknownTools(
  services: Pick<Services, 'db' | 'pool' | 'log'>,
  tenantId: string,
  given: readonly GivenTools[],
): Promise<{ readonly warnings?: string[] }> {
  if (given.every(({ tools }) => tools.length === 0)) return {};
  try {
    const budget = { steps: intersectionStepsMax };
    const named = await namedTools(services, tenantId);
    const unnamed = unmatched(given, named, budget);
    const ofServers = toolsOfServers(given, new Set(named));
    if (unnamed.length === 0 && ofServers.length === 0) return {};
    const called = await calledTools(services, tenantId);
    const unknown = unmatched(unnamed, called, budget);
    const warnings = [
      ...textsOf(unknown, [...named, ...called]),
      ...misspeltTools(ofServers, [...named, ...called]).slice(0, warningsMax),
    ];
    return warnings.length === 0 ? {} : { warnings };
  } catch (err) {
    services.log.warn({ err }, 'could not compare the tools of a change with the known ones');
    return {};
  }
}

/**
 * Returns the tools that no known tool matches. A comparison that exceeds the budget counts as a
 * match.
 */
function unmatched(
  given: readonly GivenTools[],
  known: readonly string[],
  budget: GlobBudget,
): readonly GivenTools[] {
  const literals = new Set(known);
  const globs = known.filter((one) => one.includes('*'));
  const isKnown = (tool: string) =>
    literals.has(tool) ||
    globsMayIntersect([tool], tool.includes('*') ? known : globs, 'tool', budget);
  return given.flatMap(({ field, tools }) => {
    const left = [...new Set(tools)].filter((tool) => !isKnown(tool));
    return left.length === 0 ? [] : [{ field, tools: left }];
  });
}

function textsOf(unknown: readonly GivenTools[], known: readonly string[]): string[] {
  const all = unknown.flatMap(({ field, tools }) => tools.map((tool) => ({ field, tool })));
  const suggest = suggester(known.filter((one) => one !== 'http.**' && !one.includes('/')));
  const texts = all.slice(0, warningsMax).map(({ field, tool }) => {
    const nearest = suggest(tool);
    const hint = nearest === undefined ? 'check the spelling' : `did you mean "${nearest}"?`;
    return `${field}: "${tool}" matches no tool that is registered, bound or was called before; ${hint}`;
  });
  const more = all.length - texts.length;
  return more === 0 ? texts : [...texts, `${more} more match no known tool.`];
}

/**
 * Returns a function that suggests the nearest known id or, for a glob, the nearest group of ids.
 * The function returns undefined when the budget is used up.
 */
function suggester(known: readonly string[]): (tool: string) => string | undefined {
  const groups = [...new Set(known.map(groupOf))];
  let steps = editStepsMax;
  return (tool) => {
    const candidates = tool.includes('*') ? groups : known;
    steps -= candidates.reduce((sum, { length }) => sum + length * tool.length, 0);
    return steps < 0 ? undefined : nearestName(tool, candidates);
  };
}

/** Returns the glob of the tool's group, for example `payments.*` for `payments.refund`. */
function groupOf(tool: string): string {
  const end = tool.lastIndexOf('.');
  return end < 0 ? tool : `${tool.slice(0, end)}.*`;
}

type Deps = Pick<Services, 'db' | 'pool'>;

const rowsMax = 5_000;
const seenMax = 1_000;

/**
 * Returns the ids and globs of registered and bound tools. A call to an unbound host has the tool
 * id `http.…`.
 */
async function namedTools({ db }: Deps, tenantId: string): Promise<readonly string[]> {
  const where = { tenantId };
  const [tools, bindings] = await Promise.all([
    claimedRows(db, 'tool').findClaims(['name'], { where, take: rowsMax }),
    db.binding.findMany({
      where,
      select: { name: true, protocol: true, definition: true },
      take: rowsMax,
    }),
  ]);
  return ['http.**', ...tools.map(({ name }) => name), ...bindings.flatMap(toolsOfBinding)];
}

interface StoredBinding {
  readonly name: string;
  readonly protocol: string;
  readonly definition: unknown;
}

function toolsOfBinding({ name, protocol, definition }: StoredBinding): readonly string[] {
  switch (protocol) {
    case 'mcp':
      return [`mcp.${name}.**`, `mcp.${name}/**`];
    case 'passthrough':
      return [`passthrough.${name}`];
    default: {
      const tool = isJsonObject(definition) ? definition.tool : undefined;
      return typeof tool === 'string' ? [tool] : [];
    }
  }
}

/**
 * Returns the ids of tools that have decisions. The statement uses the index to skip from one id to
 * the next.
 */
async function calledTools({ pool }: Deps, tenantId: string): Promise<readonly string[]> {
  const { rows } = await pool.query<{ tool: string }>(
    `with recursive called(tool, n) as (
       (select tool, 1 from evidence_row
         where tenant_id = $1 and tool is not null and decision is not null
         order by tool limit 1)
       union all
       select (select row.tool from evidence_row row
                where row.tenant_id = $1 and row.tool > called.tool and row.decision is not null
                order by row.tool limit 1), called.n + 1
         from called where called.tool is not null and called.n < $2)
     select tool from called where tool is not null`,
    [tenantId, seenMax],
  );
  return rows.map(({ tool }) => tool);
}

import { isJsonObject } from '../../shared/base/json.ts';
import type { Services } from '../core/services.ts';

type Deps = Pick<Services, 'db' | 'pool'>;

const rowsMax = 5_000;
const seenMax = 1_000;

/** Tools that are registered or bound, as ids and globs. A call on a host without binding is `http.…`. */
export async function namedTools({ db }: Deps, tenantId: string): Promise<readonly string[]> {
  const where = { tenantId };
  const [tools, bindings] = await Promise.all([
    db.tool.findMany({ where, select: { name: true }, take: rowsMax }),
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

/** Ids of tools that decisions were made on: the index is skipped through, from one id to the next. */
export async function calledTools({ pool }: Deps, tenantId: string): Promise<readonly string[]> {
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

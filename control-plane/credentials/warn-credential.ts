import { hostDistance, namedHost } from '../../shared/binding/host-distance.ts';
import type { CredentialRecord } from '../../shared/contract/credentials.ts';
import { type GlobBudget, globsCertainlyIntersect } from '../../shared/glob/glob-intersection.ts';
import { boundedWarnings } from '../core/bounded-warnings.ts';
import type { Services } from '../core/services.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';

const rowsMax = 5_000;
/** Limits the comparison to a few milliseconds, so that it does not block other requests. */
const intersectionStepsMax = 150_000;
const hostStepsMax = 20_000;

type Deps = Pick<Services, 'db' | 'pool' | 'log'>;

/**
 * Returns warnings about probable mistakes in a stored credential: unknown tools, hosts without a
 * binding, other credentials for the same calls. Never throws, because the credential is already
 * stored.
 */
export async function warnCredential(
  services: Deps,
  tenantId: string,
  { name, bind }: CredentialRecord,
): Promise<{ readonly warnings?: string[] }> {
  const tools = await warnUnknownTools(services, tenantId, [
    { field: 'bind.tools', tools: bind.tools },
  ]);
  const others = await warnHostsAndOverlaps(services, tenantId, { name, bind });
  return boundedWarnings([...others, ...(tools.warnings ?? [])]);
}

type Bound = Pick<CredentialRecord, 'name' | 'bind'>;

async function warnHostsAndOverlaps(
  { db, log }: Deps,
  tenantId: string,
  stored: Bound,
): Promise<readonly string[]> {
  const where = { tenantId };
  try {
    const [bindings, credentials] = await Promise.all([
      db.binding.findMany({ where, select: { host: true, protocol: true }, take: rowsMax }),
      db.credential.findMany({
        where,
        select: { name: true, tools: true, hosts: true },
        // The order in which the gateway and sidecars try credentials.
        orderBy: { name: 'asc' },
        take: rowsMax,
      }),
    ]);
    return [...hostWarnings(stored.bind.hosts, bindings), ...overlapWarnings(stored, credentials)];
  } catch (err) {
    log.warn({ err }, 'could not compare a credential with bindings and other credentials');
    return [];
  }
}

interface BoundHost {
  readonly host: string;
  readonly protocol: string;
}

function hostWarnings(hosts: readonly string[], bindings: readonly BoundHost[]): readonly string[] {
  const injected = bindings.filter(({ protocol }) => protocol !== 'passthrough');
  const known = [...new Set(injected.map(({ host }) => host))];
  const passed = new Set(bindings.map(({ host }) => host));
  let steps = hostStepsMax;
  return hosts.flatMap((host) => {
    if (known.includes(host)) return [];
    if (passed.has(host)) {
      return `bind.hosts: "${host}" is passed through, and no credential is added to its calls; bind its calls instead`;
    }
    steps -= known.length;
    const nearest = steps < 0 ? undefined : nearestHost(host, known);
    const hint =
      nearest === undefined
        ? 'bind its calls, or check how it is written, with the port'
        : `did you mean "${nearest}"?`;
    return `bind.hosts: no binding has the host "${host}"; ${hint}`;
  });
}

function nearestHost(host: string, known: readonly string[]): string | undefined {
  const wanted = namedHost(host);
  let best: { readonly one: string; readonly distance: number } | undefined;
  for (const one of known) {
    const distance = hostDistance(wanted, namedHost(one));
    if (distance < (best?.distance ?? Number.POSITIVE_INFINITY)) best = { one, distance };
  }
  return best?.one;
}

interface CredentialRow {
  readonly name: string;
  readonly tools: readonly string[];
  readonly hosts: readonly string[];
}

/**
 * Warns of credentials that cover the same calls. `rows` are in the order in which credentials are
 * tried, and include the stored credential.
 */
function overlapWarnings({ name, bind }: Bound, rows: readonly CredentialRow[]): readonly string[] {
  const budget = { steps: intersectionStepsMax };
  const own = rows.findIndex((row) => row.name === name);
  return rows.flatMap((row, at) => {
    if (at === own) return [];
    const shared = sharedCalls(bind, row, budget);
    if (shared === undefined) return [];
    const used = at < own ? row.name : name;
    return `bind: the credential "${row.name}" covers ${shared} too; such calls use "${used}", the first by name`;
  });
}

/**
 * Describes a call that both credentials cover. Returns undefined if there is none, or if the
 * comparison exceeds the budget.
 */
function sharedCalls(
  bind: CredentialRecord['bind'],
  { tools, hosts }: CredentialRow,
  budget: GlobBudget,
): string | undefined {
  const host = bind.hosts.find((one) => hosts.includes(one));
  if (host === undefined) return undefined;
  const tool = bind.tools.find((one) => globsCertainlyIntersect([one], tools, 'tool', budget));
  return tool === undefined ? undefined : `"${tool}" on "${host}"`;
}

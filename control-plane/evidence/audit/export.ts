import type { AuditExportQuery, exportAudit } from '../../../shared/contract/evidence/audit.ts';
import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { SigningKey } from '../../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { csvTrail, type ListedTrail, markdownTrail } from '../../../shared/ledger/audit/list.ts';
import {
  type AuditFormat,
  signTrail,
  signTrailText,
} from '../../../shared/ledger/audit/statement.ts';
import type { Services } from '../../core/services.ts';
import { readCursor } from '../../ledger/reading/cursor.ts';
import { eventFilter } from '../../ledger/reading/event-filter.ts';
import { newEvent } from '../../ledger/sealing/new-event.ts';
import type { Caller } from '../../platform/access/caller.ts';
import type { Reply } from '../../platform/http/route.ts';
import { chainsOf, readTrail } from './trail.ts';

/** Limit of the file, which is signed in memory. */
const eventsMax = 10_000;
const charactersMax = 64 * 1_048_576;
const pageRows = 500;

const contentTypes: Readonly<Record<AuditFormat, string>> = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
};

/** Exports the audit trail as one signed file. The request itself is sealed and included. */
export async function exportTrail(
  services: Services,
  { tenantId, principal }: Caller,
  { format, ...asked }: AuditExportQuery,
): Promise<Reply<typeof exportAudit>> {
  const key = await reportKey(services, tenantId);
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  const filters = Object.fromEntries(given) as Record<string, string>;
  const data = { by: principal, filters, format };
  const type = 'audit.exported';
  const noted = newEvent({ type, chainId: 'evidence:exports', data }, services.clock);
  await services.ledger.seal(tenantId, noted);
  const events = await readAll(services, tenantId, asked);
  const chains = await chainsOf(services, tenantId, events);
  const trail = {
    type: 'audit-trail' as const,
    tenant: tenantId,
    created_at: noted.occurred_at,
    filters,
    events: events.map(({ cursor: _cursor, ...event }) => event),
    chains: [...chains],
  };
  return { bytes: write(trail, format, key), headers: headersOf(tenantId, format) };
}

async function reportKey({ signingKeys, log }: Services, tenantId: string): Promise<SigningKey> {
  try {
    return await signingKeys.active(tenantId, 'report');
  } catch (cause) {
    log.error({ err: cause, tenantId }, 'no key is available to sign reports');
    throw new GatewayError('report.signing_unavailable', { cause });
  }
}

async function readAll(
  services: Pick<Services, 'pool' | 'vault'>,
  tenantId: string,
  asked: Omit<AuditExportQuery, 'format'>,
): Promise<readonly SealedEventRecord[]> {
  const filter = eventFilter(asked);
  const events: SealedEventRecord[] = [];
  let characters = 0;
  for (let cursor: string | undefined; ; cursor = events.at(-1)?.cursor) {
    const after = cursor === undefined ? undefined : readCursor(services.vault, tenantId, cursor);
    const read = { filter, after, limit: pageRows };
    const { events: page, isFull } = await readTrail(services, tenantId, read);
    events.push(...page);
    characters += page.reduce((sum, event) => sum + JSON.stringify(event).length, 0);
    if (events.length > eventsMax || characters > charactersMax) {
      throw new GatewayError('evidence.export_too_large');
    }
    if (!isFull) return events;
  }
}

function write(
  trail: ListedTrail & { readonly type: 'audit-trail' },
  format: AuditFormat,
  key: SigningKey,
): string {
  if (format === 'json') return `${canonicalJson(signTrail(trail, key))}\n`;
  const { tenant, created_at } = trail;
  const content = format === 'csv' ? csvTrail(trail) : markdownTrail(trail);
  return signTrailText(content, { format, tenant, created_at }, key);
}

function headersOf(tenantId: string, format: AuditFormat): Readonly<Record<string, string>> {
  const name = `audit-${tenantId.replaceAll(/[^A-Za-z0-9._-]/g, '_')}.${format}`;
  return {
    'content-type': contentTypes[format],
    'content-disposition': `attachment; filename="${name}"`,
    'cache-control': 'no-store',
  };
}

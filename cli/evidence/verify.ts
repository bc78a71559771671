import { parseArgs } from 'node:util';
import { isJsonObject } from '../../shared/base/json.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { importPublicJwk, type PublicJwk } from '../../shared/crypto/signing-key.ts';
import type { ExportReport } from '../../shared/ledger/bundle/report.ts';
import { type ExportTrust, verifyExport } from '../../shared/ledger/bundle/verify.ts';
import { count, say, sayJson } from '../policy/say.ts';
import { isTrail, verifyAudit } from './audit.ts';
import { openExport, readNamed } from './export-file.ts';
import { filtersText } from './filters.ts';

/** `sallyport evidence verify FILE`: asks nothing of anybody. */
export async function verify(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      'trust-key': { type: 'string', multiple: true, default: [] },
      jwks: { type: 'string' },
      checkpoint: { type: 'string' },
      json: { type: 'boolean' },
    },
  });
  const [path, ...others] = positionals;
  if (path === undefined || others.length > 0) {
    throw new SettingsError('Name one export: sallyport evidence verify FILE.');
  }
  const trust = readTrust(values);
  const file = await openExport(path);
  if (await isTrail(file)) {
    return verifyAudit(file, { ...trust, isJson: values.json === true }).finally(file.close);
  }
  const report = await verifyExport(file, trust).finally(file.close);
  if (values.json === true) sayJson(report);
  else say([...told(report), ...verdict(report)]);
  if (!report.ok) return 1;
  return report.trusted ? 0 : 3;
}

interface TrustOptions {
  readonly 'trust-key': readonly string[];
  readonly jwks?: string | undefined;
  readonly checkpoint?: string | undefined;
}

function readTrust({ 'trust-key': named, jwks: path, checkpoint }: TrustOptions): ExportTrust & {
  /** Thumbprints of keys that they trust to sign reports. */
  readonly reporters: ReadonlySet<string>;
} {
  const malformed = named.find((one) => !/^[A-Za-z0-9_-]{43}$/.test(one));
  if (malformed !== undefined) {
    throw new SettingsError(`--trust-key: ${malformed} is not a thumbprint of 43 characters.`);
  }
  const keys = path === undefined ? [] : readJwks(path);
  const trusted = (wanted: string) => {
    const signers = keys.filter(({ purpose = wanted }) => purpose === wanted);
    return new Set([...named, ...signers.map((jwk) => importPublicJwk(jwk).kid)]);
  };
  return {
    thumbprints: trusted('export'),
    reporters: trusted('report'),
    jwks: keys,
    checkpoint: checkpoint === undefined ? undefined : readNamed('--checkpoint', checkpoint),
  };
}

/** A JWK Set; whoever wrote it may have left out what the keys are for. */
function readJwks(path: string): readonly (PublicJwk & { readonly purpose?: string })[] {
  const text = readNamed('--jwks', path);
  try {
    const set: unknown = JSON.parse(text);
    const keys = isJsonObject(set) && Array.isArray(set.keys) ? set.keys : [];
    if (keys.length === 0) throw new TypeError('it holds no keys');
    for (const jwk of keys) importPublicJwk(jwk);
    return keys;
  } catch (cause) {
    throw new SettingsError(`--jwks: ${path} is not a JSON Web Key Set.`, { cause });
  }
}

function told(report: ExportReport): readonly string[] {
  const { tenant, format, checkpoint, created_at, complete, filters } = report;
  if (format === null) return [];
  const of = complete ? 'all events' : `events with ${filtersText(filters)}`;
  return [
    `${format} export of ${tenant}, made ${created_at}: ${of}`,
    ...contentText(report),
    ...(checkpoint === null
      ? []
      : [`checkpoint of ${count(checkpoint.size, 'event')}, tree root ${checkpoint.root}`]),
    ...(report.anchored && report.ok ? ['what the checkpoint given covers is unchanged'] : []),
  ];
}

function contentText({ ok, format, events, chains, complete, filters }: ExportReport) {
  if (ok && events === 0) {
    return [complete ? 'no events yet' : `no event passed the filter: ${filtersText(filters)}`];
  }
  return format === 'json'
    ? [`${count(events, 'event')} in ${count(chains, 'chain')}, each recomputed`]
    : [`${count(events, 'event')}, signed as a whole`];
}

function verdict({
  ok,
  trusted,
  signed_by: kid,
  problems,
  events,
}: ExportReport): readonly string[] {
  const shown = problems.map(({ kind, position, chain_id: chain, message }) => {
    const place = [position !== null && `position ${position}`, chain !== null && `chain ${chain}`];
    const where = place.filter(Boolean).join(', ');
    return `✗ ${kind}${where === '' ? '' : ` at ${where}`}: ${message}`;
  });
  if (!ok) return [...shown, 'NOT VERIFIED'];
  const verified = events === 0 ? 'VERIFIED, BUT EMPTY: this export holds no event' : 'VERIFIED';
  if (trusted) return [`signed by ${kid}, which you trust`, verified];
  return [
    `signed by ${kid}, which came with the file: it proves nothing until you compare it`,
    'INTACT, BY NO KEY THAT YOU TRUST: give --trust-key or --jwks',
  ];
}

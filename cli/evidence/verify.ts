import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { isJsonObject } from '../../shared/base/json.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { importPublicJwk, type PublicJwk } from '../../shared/crypto/signing-key.ts';
import type { ExportFile } from '../../shared/ledger/bundle/read.ts';
import type { ExportReport } from '../../shared/ledger/bundle/report.ts';
import { type ExportTrust, verifyExport } from '../../shared/ledger/bundle/verify.ts';
import { counted, printJson, printLines } from '../support/terminal.ts';
import { describeFilters } from './filters.ts';
import { isAuditTrail, verifyAuditTrail } from './verify-audit-trail.ts';

interface Options {
  /** Thumbprints of trusted keys. */
  readonly trustKey?: readonly string[];
  /** Path of a JWK Set. */
  readonly jwks?: string;
  /** Path of a checkpoint. */
  readonly checkpoint?: string;
  readonly json?: boolean;
}

/** `sallyport evidence verify`. Reads only the given files. */
export async function verify(path: string, options: Options): Promise<number> {
  const trust = readTrust(options);
  const file = await openExport(path);
  try {
    if (await isAuditTrail(file)) {
      return await verifyAuditTrail(file, { ...trust, isJson: options.json === true });
    }
    const report = await verifyExport(file, trust);
    if (options.json === true) printJson(report);
    else printLines([...contents(report), ...verdict(report)]);
    if (!report.ok) return 1;
    return report.trusted ? 0 : 3;
  } finally {
    await file.close();
  }
}

interface Trust extends ExportTrust {
  /** Thumbprints of keys that are trusted to sign reports. */
  readonly reporters: ReadonlySet<string>;
}

function readTrust({ trustKey = [], jwks, checkpoint }: Options): Trust {
  const keys = jwks === undefined ? [] : readJwks(jwks);
  const trusted = (wanted: string) => {
    const signers = keys.filter(({ purpose = wanted }) => purpose === wanted);
    return new Set([...trustKey, ...signers.map((jwk) => importPublicJwk(jwk).kid)]);
  };
  return {
    thumbprints: trusted('export'),
    reporters: trusted('report'),
    jwks: keys,
    checkpoint: checkpoint === undefined ? undefined : readText('--checkpoint', checkpoint),
  };
}

/** Reads a JWK Set. The member `purpose` is optional, because other programs omit it. */
function readJwks(path: string): readonly (PublicJwk & { readonly purpose?: string })[] {
  const text = readText('--jwks', path);
  try {
    const set: unknown = JSON.parse(text);
    const keys = isJsonObject(set) && Array.isArray(set.keys) ? set.keys : [];
    if (keys.length === 0) throw new TypeError('the set has no keys');
    for (const jwk of keys) importPublicJwk(jwk);
    return keys;
  } catch (cause) {
    throw new SettingsError(
      `--jwks: ${path} is not a JSON Web Key Set; use one that \`sallyport evidence jwks\` wrote.`,
      { cause },
    );
  }
}

function contents(report: ExportReport): readonly string[] {
  const { tenant, format, checkpoint, created_at, complete, filters } = report;
  if (format === null) return [];
  const selection = complete ? 'all events' : `events with ${describeFilters(filters)}`;
  return [
    `${format} export of ${tenant}, made ${created_at}: ${selection}`,
    ...contentText(report),
    ...(checkpoint === null
      ? []
      : [`checkpoint of ${counted(checkpoint.size, 'event')}, tree root ${checkpoint.root}`]),
    ...(report.anchored && report.ok ? ['the events of the given checkpoint are unchanged'] : []),
  ];
}

function contentText({ ok, format, events, chains, complete, filters }: ExportReport) {
  if (ok && events === 0) {
    return [complete ? 'no events' : `no event matched the filter: ${describeFilters(filters)}`];
  }
  return format === 'json'
    ? [`${counted(events, 'event')} in ${counted(chains, 'chain')}, each recomputed`]
    : [`${counted(events, 'event')}, signed as a whole`];
}

function verdict({
  ok,
  trusted,
  signed_by: kid,
  problems,
  events,
}: ExportReport): readonly string[] {
  const lines = problems.map(({ kind, position, chain_id: chain, message }) => {
    const place = [position !== null && `position ${position}`, chain !== null && `chain ${chain}`];
    const where = place.filter(Boolean).join(', ');
    return `✗ ${kind}${where === '' ? '' : ` at ${where}`}: ${message}`;
  });
  if (!ok) return [...lines, 'NOT VERIFIED'];
  const verified = events === 0 ? 'VERIFIED, BUT EMPTY: this export has no events' : 'VERIFIED';
  if (trusted) return [`signed by ${kid}, which you trust`, verified];
  return [
    `signed by ${kid}, a key from the file itself: compare it with a key from its owner`,
    'INTACT BUT UNTRUSTED: not signed by a key that you trust. Pass --trust-key or --jwks.',
  ];
}

const partBytes = 1 << 20;

/** Opens an export, to read it in parts. */
async function openExport(path: string): Promise<ExportFile & { close(): Promise<void> }> {
  const file = await open(path, 'r').catch((cause: unknown) => {
    throw new SettingsError(`Cannot read the file ${path}.`, { cause });
  });
  const stat = await file.stat();
  if (!stat.isFile()) {
    await file.close();
    throw new SettingsError(
      `${path} is not a file. Verification reads a file more than once, so it needs a regular file.`,
    );
  }
  const read = async (start: number, end: number) => {
    const bytes = Buffer.alloc(Math.max(0, end - start));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
    return bytes.subarray(0, bytesRead);
  };
  return {
    size: stat.size,
    read,
    async *parts(end) {
      for (let at = 0; at < end; ) {
        const part = await read(at, Math.min(at + partBytes, end));
        if (part.length === 0) return;
        yield part;
        at += part.length;
      }
    },
    close: () => file.close(),
  };
}

/** Reads a file that an option names. */
function readText(option: string, path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (cause) {
    throw new SettingsError(`${option}: cannot read ${path}.`, { cause });
  }
}

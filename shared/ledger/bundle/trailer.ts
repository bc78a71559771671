import { isJsonObject } from '../../base/json.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import { isObjectSignature } from '../../crypto/signed-object.ts';
import { cefText, syslogFrame } from '../siem/cef.ts';
import type { SiemDialect } from '../siem/dialects.ts';
import { ecsIndex } from '../siem/ecs.ts';
import { gatewayName, product } from '../siem/product.ts';
import { bundleStart } from './layout.ts';
import {
  type ExportStatement,
  type ExportTrailer,
  exportFormats,
  trailerText,
} from './statement.ts';

// Each format embeds its trailer so that parsers of the format can read the whole file. All formats
// except the JSON bundle embed the trailer as one base64url word.

const marker = 'sallyport-export:';

/**
 * Writes the last part of an export. The statement and the signature determine every byte of it.
 */
export function writeTrailer(trailer: ExportTrailer): string {
  const { format, dialect = 'json' } = trailer.statement;
  const word = `${marker}${Buffer.from(trailerText(trailer)).toString('base64url')}`;
  switch (format) {
    case 'json': {
      const { statement, signature } = trailer;
      return `"statement":${canonicalJson(statement)},"signature":${canonicalJson(signature)}}\n`;
    }
    case 'csv':
      return `# ${word}\r\n`;
    case 'md':
      return `\n<!-- ${word} -->\n`;
    case 'siem':
      return siemTrailers[dialect](word, trailer.statement);
  }
}

const siemTrailers: Readonly<
  Record<SiemDialect, (word: string, statement: ExportStatement) => string>
> = {
  json: (word, { tenant, created_at }) =>
    lineOf({ type: 'evidence.export', tenant, occurred_at: created_at, export: word }),
  siem_a_hec: (word, { tenant, created_at }) =>
    lineOf({
      time: Date.parse(created_at) / 1_000,
      host: gatewayName,
      source: 'sallyport',
      sourcetype: 'sallyport:export',
      event: { type: 'evidence.export', tenant, export: word },
    }),
  siem_b: (word, { tenant, created_at, content_sha256 }) =>
    lineOf({ create: { _index: ecsIndex, _id: `${tenant}:export:${content_sha256}` } }) +
    lineOf({
      '@timestamp': created_at,
      ecs: { version: '8.11.0' },
      event: { kind: 'event', action: 'evidence.export', dataset: 'sallyport.evidence' },
      organization: { id: tenant },
      sallyport: { export: word },
    }),
  syslog_cef: (word, { tenant, created_at }) =>
    syslogFrame({
      time: created_at,
      messageId: 'evidence.export',
      cef: cefText(
        { signature: 'evidence.export', name: 'Evidence exported', severity: 2 },
        {
          rt: Date.parse(created_at),
          cs5Label: 'tenant',
          cs5: tenant,
          cs6Label: 'export',
          cs6: word,
        },
      ),
    }),
  ocsf: (word, { tenant, created_at }) =>
    lineOf({
      metadata: {
        version: '1.6.0',
        product: { name: product.name, vendor_name: product.vendor, version: product.version },
        tenant_uid: tenant,
        event_code: 'evidence.export',
      },
      category_uid: 6,
      class_uid: 6003,
      activity_id: 2,
      type_uid: 600302,
      severity_id: 1,
      time: Date.parse(created_at),
      actor: { app_uid: 'control-plane' },
      api: { operation: 'evidence.export' },
      src_endpoint: { name: gatewayName },
      unmapped: { sallyport: { export: word } },
    }),
};

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** Maximum size of a trailer at the end of an export, with any filters. */
export const trailerBytesMax = 131_072;

/**
 * Finds the trailer in the last bytes of an export. Undefined if the export is truncated or its end
 * was altered. `isWholeTrailer` checks that nothing else follows the content.
 */
export function readTrailer(tail: Uint8Array, head: string): ExportTrailer | undefined {
  const text = Buffer.from(tail).toString('utf8');
  return toTrailer(head.startsWith(bundleStart) ? jsonTrailer(text) : wordTrailer(text));
}

function jsonTrailer(text: string): unknown {
  const start = text.lastIndexOf('\n"statement":');
  return start === -1 ? undefined : parse(`{${text.slice(start + 1)}`);
}

function wordTrailer(text: string): unknown {
  const word = /^[A-Za-z0-9_-]+/.exec(text.slice(text.lastIndexOf(marker) + marker.length))?.[0];
  return word === undefined ? undefined : parse(Buffer.from(word, 'base64url').toString('utf8'));
}

function toTrailer(value: unknown): ExportTrailer | undefined {
  if (!isJsonObject(value)) return undefined;
  const { statement, signature } = value;
  return isStatement(statement) && isObjectSignature(signature)
    ? ({ statement, signature } as unknown as ExportTrailer)
    : undefined;
}

/** Checks only the members that the next steps read; the signature protects the others. */
function isStatement(value: unknown): boolean {
  return (
    isJsonObject(value) &&
    value.type === 'evidence-export' &&
    exportFormats.some((format) => format === value.format) &&
    (value.format !== 'siem' || isDialect(value.dialect)) &&
    ['tenant', 'created_at', 'content_sha256', 'checkpoint'].every(
      (name) => typeof value[name] === 'string',
    ) &&
    [value.events, value.bytes].every((number) => Number.isSafeInteger(number)) &&
    isJsonObject(value.filters) &&
    Array.isArray(value.keys)
  );
}

function isDialect(value: unknown): boolean {
  return typeof value === 'string' && Object.hasOwn(siemTrailers, value);
}

/** True if `rest`, the bytes after the content, consists of this trailer and nothing else. */
export function isWholeTrailer(trailer: ExportTrailer, rest: Uint8Array): boolean {
  try {
    return Buffer.from(writeTrailer(trailer)).equals(rest);
  } catch {
    // A trailer that cannot be written does not come from an export.
    return false;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

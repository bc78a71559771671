import { toCefMessage } from './cef.ts';
import { toBulkLines } from './ecs.ts';
import { toHecEvent } from './hec.ts';
import { toJsonLine } from './json.ts';
import { toOcsfLine } from './ocsf.ts';
import type { SiemRecord } from './record.ts';

/** The names of SIEM dialects in API and settings. */
export const siemDialects = ['json', 'siem_a_hec', 'siem_b', 'syslog_cef', 'ocsf'] as const;
export type SiemDialect = (typeof siemDialects)[number];

interface Dialect {
  readonly contentType: string;
  /** Formats a record as text. The texts of several records can be concatenated. */
  readonly write: (record: SiemRecord) => string;
}

const ndjson = 'application/x-ndjson';

export const dialects: Readonly<Record<SiemDialect, Dialect>> = {
  json: { contentType: ndjson, write: toJsonLine },
  siem_a_hec: { contentType: 'application/json', write: toHecEvent },
  siem_b: { contentType: ndjson, write: toBulkLines },
  syslog_cef: { contentType: 'text/plain; charset=utf-8', write: toCefMessage },
  ocsf: { contentType: ndjson, write: toOcsfLine },
};

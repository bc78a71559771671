import { gatewayName, product } from './product.ts';
import { isAlarm, type Outcome, outcomeOf, type SiemRecord } from './record.ts';

/** Facility 13 (log audit), severity 6 (informational): RFC 5424, section 6.2.1. */
const priority = 13 * 8 + 6;

const words: Readonly<Record<Outcome, { readonly name: string; readonly severity: number }>> = {
  allowed: { name: 'Action allowed', severity: 2 },
  approved: { name: 'Action allowed after approval', severity: 3 },
  warned: { name: 'Action allowed with a warning', severity: 5 },
  held: { name: 'Action held for a human', severity: 6 },
  denied: { name: 'Action denied', severity: 8 },
  failed: { name: 'Action failed', severity: 6 },
  recorded: { name: 'Event recorded', severity: 2 },
};

/** The extension of a CEF message; undefined members are omitted. */
export type CefExtension = Readonly<Record<string, string | number | undefined>>;

/**
 * Formats an event as a CEF message in a syslog frame with octet counting: `LENGTH SP MESSAGE` (RFC
 * 6587 section 3.4.1).
 */
export function toCefMessage({ event, prevHash, eventHash }: SiemRecord): string {
  const { name, severity } = isAlarm(event.type)
    ? { name: 'Evidence failed verification', severity: 10 }
    : words[outcomeOf(event)];
  return syslogFrame({
    time: event.occurred_at,
    messageId: 'evidence.sealed',
    cef: cefText(
      { signature: event.reason_code ?? event.type, name, severity },
      {
        rt: Date.parse(event.occurred_at),
        externalId: event.id,
        cat: event.type,
        act: event.decision,
        outcome: outcomeOf(event),
        suser: event.user_id,
        sproc: event.agent_id,
        request: event.tool,
        dvchost: event.source,
        cs1Label: 'chain_id',
        cs1: event.chain_id,
        cs2Label: 'event_hash',
        cs2: eventHash,
        cs3Label: 'prev_hash',
        cs3: prevHash,
        cs4Label: event.resource === undefined ? undefined : 'resource',
        cs4: event.resource,
        cs5Label: 'tenant',
        cs5: event.tenant,
        cn1Label: 'position',
        cn1: event.position,
        cn2Label: 'seq',
        cn2: event.seq,
      },
    ),
  });
}

interface SyslogMessage {
  readonly time: string;
  /** Printable ASCII without spaces, at most 32 characters. */
  readonly messageId: string;
  readonly cef: string;
}

export function syslogFrame({ time, messageId, cef }: SyslogMessage): string {
  const message = `<${priority}>1 ${time} ${gatewayName} sallyport - ${messageId} - ${cef}`;
  return `${Buffer.byteLength(message)} ${message}`;
}

interface CefHeader {
  readonly signature: string;
  readonly name: string;
  readonly severity: number;
}

export function cefText({ signature, name, severity }: CefHeader, extension: CefExtension): string {
  const header = ['CEF:0', product.vendor, product.name, product.version, signature, name, severity]
    .map((field) => headerField(String(field)))
    .join('|');
  const pairs = Object.entries(extension)
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([key, value]) => `${key}=${extensionValue(String(value))}`);
  return `${header}|${pairs.join(' ')}`;
}

/** Line breaks and control characters could end the message or control a terminal. */
const controls = /[\p{Cc}\u2028\u2029]/gu;

function headerField(text: string): string {
  return text.replaceAll(/[\\|]/g, '\\$&').replaceAll(controls, ' ');
}

function extensionValue(text: string): string {
  return text
    .replaceAll(/[\\=]/g, '\\$&')
    .replaceAll(/\r\n|[\n\r]/g, '\\n')
    .replaceAll(controls, ' ');
}

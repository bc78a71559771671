import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../shared/base/json.ts';
import { contractVersion } from '../../../../shared/contract/base/openapi.ts';
import type { EvidenceEvent } from '../../../../shared/ledger/event.ts';
import {
  dialects,
  type SiemDialect,
  siemDialects,
} from '../../../../shared/ledger/siem/dialects.ts';
import { product } from '../../../../shared/ledger/siem/product.ts';
import type { SiemRecord } from '../../../../shared/ledger/siem/record.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';

const occurred_at = '2026-11-20T10:00:00.123Z';
const hashes = { prevHash: `sha256:${'0'.repeat(64)}`, eventHash: `sha256:${'a'.repeat(64)}` };
const recordOf = (fields: Partial<EvidenceEvent> = {}): SiemRecord => ({
  event: {
    ...anEvent({ id: 'ev_1001', occurred_at, ...fields }),
    tenant: 't1',
    position: 42,
    seq: 7,
  },
  ...hashes,
});
const denied = recordOf({
  decision: 'deny',
  reason_code: 'refund.out_of_policy',
  data: { matched_rules: ['refunds/large'], policy_hash: 'sha256:1' },
});
const linesOf = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as JsonObject);
const write = (dialect: SiemDialect, record: SiemRecord) => dialects[dialect].write(record);

/** Parses a CEF message by the rules of the format. */
function readCef(frame: string) {
  const [, length = '', rest = ''] = /^(\d+) (.*)$/s.exec(frame) ?? [];
  expect(Buffer.byteLength(rest)).toBe(Number(length));
  const [, syslog = '', cef = ''] = /^(<110>1 \S+ \S+ \S+ - \S+ - )(CEF:0.*)$/s.exec(rest) ?? [];
  const fields = cef.split(/(?<!\\)(?:\\\\)*\|/);
  const extension = fields.slice(7).join('|');
  const pairs = [...extension.matchAll(/(\w+)=((?:\\.|[^\\=])*?)(?= \w+=|$)/gs)].map(
    ([, key = '', value = '']) => [
      key,
      value.replaceAll(/\\(.)/g, (_match, one: string) => (one === 'n' ? '\n' : one)),
    ],
  );
  return { syslog, fields, values: Object.fromEntries(pairs) as Record<string, string> };
}

describe('a denied action in a SIEM export', () => {
  it('is exported as the event with its chain hashes in the JSON dialect', () => {
    expect(linesOf(write('json', denied))).toEqual([
      { ...denied.event, prev_hash: hashes.prevHash, event_hash: hashes.eventHash },
    ]);
  });

  it('has a time in seconds and flat searchable fields in the event collector dialect', () => {
    const [event, ...others] = linesOf(write('siem_a_hec', denied));
    expect(others).toEqual([]);
    expect(event).toMatchObject({
      time: 1795168800.123,
      host: 'gateway',
      source: 'sallyport',
      sourcetype: 'sallyport:evidence',
      event: { id: 'ev_1001', event_hash: hashes.eventHash },
      fields: { decision: 'deny', outcome: 'denied', position: 42 },
    });
    const fields = Object.values(event?.fields ?? {});
    expect(fields.every((value) => ['string', 'number'].includes(typeof value))).toBe(true);
  });

  it('uses the create operation with a unique id in the bulk dialect', () => {
    const [action, document] = linesOf(write('siem_b', denied));
    expect(action).toEqual({
      create: { _index: 'logs-sallyport.evidence-default', _id: 't1:42' },
    });
    expect(document).toMatchObject({
      '@timestamp': occurred_at,
      ecs: { version: '8.11.0' },
      event: {
        id: 'ev_1001',
        kind: 'event',
        category: ['iam'],
        type: ['denied'],
        action: 'mcp.payments.refund',
        outcome: 'failure',
        reason: 'refund.out_of_policy',
        hash: hashes.eventHash,
      },
      user: { id: 'user_1' },
      rule: { name: ['refunds/large'] },
      labels: { chain_id: 'agent:7', agent_id: '7' },
    });
  });

  it('is a single message prefixed with its length in the CEF dialect', () => {
    const { syslog, fields, values } = readCef(write('syslog_cef', denied));
    expect(syslog).toBe(`<110>1 ${occurred_at} gateway sallyport - evidence.sealed - `);
    expect(fields.slice(0, 7)).toEqual([
      'CEF:0',
      'Sallyport',
      'Sallyport',
      '1.1.1',
      'refund.out_of_policy',
      'Action denied',
      '8',
    ]);
    expect(values).toMatchObject({
      rt: '1795168800123',
      externalId: 'ev_1001',
      act: 'deny',
      suser: 'user_1',
      sproc: '7',
      request: 'mcp.payments.refund',
      cs1Label: 'chain_id',
      cs1: 'agent:7',
      cs2: hashes.eventHash,
    });
  });

  it('is an API activity event, blocked by a control, in the OCSF dialect', () => {
    const [event] = linesOf(write('ocsf', denied));
    expect(event).toMatchObject({
      metadata: { version: '1.6.0', uid: 'ev_1001', tenant_uid: 't1' },
      category_uid: 6,
      class_uid: 6003,
      activity_id: 99,
      type_uid: 600399,
      action_id: 2,
      disposition_id: 2,
      severity_id: 4,
      time: 1795168800123,
      actor: { user: { uid: 'user_1' }, app_uid: '7' },
      api: { operation: 'mcp.payments.refund' },
      policy: { name: 'refunds/large', uid: 'sha256:1' },
      unmapped: { sallyport: { event_hash: hashes.eventHash, chain_id: 'agent:7' } },
    });
  });

  it('contains the contract version as the product version', () => {
    expect(product.version).toBe(contractVersion);
  });
});

describe('a decision in a SIEM export', () => {
  it.each([
    ['allow', 'refund.small', { action_id: 1, disposition_id: 1 }, '2', ['allowed']],
    ['allow', 'approval.satisfied', { action_id: 1, disposition_id: 8 }, '3', ['allowed']],
    ['warn', 'x', { action_id: 1, disposition_id: 19 }, '5', ['allowed', 'info']],
    ['require_approval', 'x', { action_id: 2, disposition_id: 14 }, '6', ['denied']],
    ['require_tool_reapproval', 'x', { action_id: 2, disposition_id: 14 }, '6', ['denied']],
    ['deny', 'x', { action_id: 2, disposition_id: 2 }, '8', ['denied']],
    // A decision that only a later version knows.
    ['allow_maybe', 'x', { action_id: 2, disposition_id: 2 }, '8', ['denied']],
  ])(
    'has the same meaning in every dialect: decision %s, reason %s',
    (decision, reason_code, ocsf, severity, ecs) => {
      const record = recordOf({ decision, reason_code });
      expect(linesOf(write('ocsf', record))[0]).toMatchObject(ocsf);
      expect(readCef(write('syslog_cef', record)).fields[6]).toBe(severity);
      expect(linesOf(write('siem_b', record))[1]).toMatchObject({ event: { type: ecs } });
    },
  );

  it('is absent from events without a decision', () => {
    const record = recordOf({ type: 'policy.published', decision: undefined, agent_id: undefined });
    const [ocsf] = linesOf(write('ocsf', record));
    expect(ocsf).toMatchObject({ activity_id: 1, type_uid: 600301, severity_id: 1 });
    expect(ocsf).not.toHaveProperty('action_id');
    expect(ocsf).not.toHaveProperty('disposition_id');
  });

  it('is exported as an alert if the event reports a problem of the ledger', () => {
    for (const type of ['chain_verification_failed', 'evidence.fork', 'integrity.forged_row']) {
      const record = recordOf({ type, decision: undefined });
      expect(readCef(write('syslog_cef', record)).fields[6]).toBe('10');
      expect(linesOf(write('ocsf', record))[0]).toMatchObject({ severity_id: 5, is_alert: true });
    }
  });
});

describe('text from an agent in a SIEM export', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({
      unit: fc.constantFrom('\\', '|', '=', '\n', '\r', '"', ' ', 'cs1=', '<', 'ü', '\u2028'),
    }),
  );

  it.each(siemDialects)('stays within its field in the dialect %s', (dialect) => {
    fc.assert(
      fc.property(text, text, text, (tool, resource, reason_code) => {
        const record = recordOf({ tool, resource, reason_code });
        const written = write(dialect, record);
        if (dialect === 'syslog_cef') {
          const { fields, values } = readCef(written);
          expect(written).not.toMatch(/[\r\n]/);
          expect(fields.slice(0, 4)).toEqual(['CEF:0', 'Sallyport', 'Sallyport', '1.1.1']);
          expect(values.cs1).toBe('agent:7');
          expect(values.cs2).toBe(hashes.eventHash);
          expect(values.act).toBe('allow');
        } else {
          const lines = linesOf(written);
          expect(lines).toHaveLength(dialect === 'siem_b' ? 2 : 1);
          expect(JSON.stringify(lines)).toContain(JSON.stringify(resource).slice(1, -1));
        }
      }),
    );
  });
});

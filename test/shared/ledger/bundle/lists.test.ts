import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exportOf, paperLedger } from '../../../support/ledger/exported.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';

/** Parses CSV into cells as RFC 4180 defines them. */
function readCsv(text: string): readonly (readonly string[])[] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain = '', end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g,
  )) {
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

const listOf = async (format: 'csv' | 'md', fields: Parameters<typeof anEvent>[0]) =>
  (await exportOf(paperLedger([anEvent(fields)]), { format })).toString();

describe('the CSV export', () => {
  it('has one row for each event, whatever its text, and the signature as the last row', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('a,b', '"', 'x\r\ny', "it's"),
    );
    await fc.assert(
      fc.asyncProperty(text, text, async (tool, resource) => {
        fc.pre(tool.isWellFormed() && resource.isWellFormed());
        const [head = [], row = [], last = [], ...more] = readCsv(
          await listOf('csv', { tool, resource }),
        );
        expect(more).toEqual([]);
        expect(last).toHaveLength(1);
        const cells = Object.fromEntries(head.map((name, at) => [name, row[at] ?? '']));
        expect(row).toHaveLength(head.length);
        expect(cells.chain_id).toBe('agent:7');
        expect([tool, `'${tool}`]).toContain(cells.tool);
        expect([resource, `'${resource}`]).toContain(cells.resource);
        expect(JSON.parse(cells.data ?? '')).toEqual({ args: { amount: 12, currency: 'EUR' } });
      }),
    );
  });

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '＝1'])(
    'escapes the formula %j for spreadsheets',
    async (resource) => {
      const [, row = []] = readCsv(await listOf('csv', { resource }));
      expect(row).toContain(`'${resource}`);
    },
  );
});

describe('the Markdown export', () => {
  it.each(['a|b', 'x\ny', '<script>', '[x](http://x)', '`', '-->', '*b*', '\\|', '\u202e'])(
    'escapes the resource %j so that the text stays within its cell',
    async (resource) => {
      const lines = (await listOf('md', { resource })).split('\n');
      const rows = lines.filter((line) => line.startsWith('| 1 |'));
      expect(rows).toHaveLength(1);
      expect(rows[0]?.split(/(?<!\\)(?:\\\\)*\|/)).toHaveLength(12);
      expect(rows[0]).not.toMatch(/<|(?<!\\)[[\]`*]|\u202e/);
    },
  );
});

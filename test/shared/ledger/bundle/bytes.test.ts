import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { verifyExport } from '../../../../shared/ledger/bundle/verify.ts';
import { siemDialects } from '../../../../shared/ledger/siem/dialects.ts';
import type { PaperExport } from '../../../support/ledger/exported.ts';
import {
  exportOf,
  fileOf,
  paperLedger,
  proved,
  verifyBytes,
} from '../../../support/ledger/exported.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';

const events = Array.from({ length: 23 }, (_, n) =>
  anEvent({
    chain_id: `agent:${n % 3}`,
    tool: n % 4 === 0 ? 'pay' : 'mail',
    // Text that an agent might choose to imitate another part of the export.
    resource: ['päy\n"1",', '=1+1|', '],"chains":[', 'sallyport-export:e30', '-->'][n % 5],
  }),
);
const ledger = paperLedger(events);
const pays = ledger.rows
  .filter(({ canonical }) => canonical.includes('"tool":"pay"'))
  .map(({ position }) => proved(ledger, position));

const kinds: readonly (readonly [name: string, wanted: PaperExport])[] = [
  ['a JSON bundle', {}],
  ['a filtered JSON bundle', { filters: { tool: 'pay' }, events: pays }],
  ['CSV', { format: 'csv' }],
  ['Markdown', { format: 'md' }],
  ...siemDialects.map(
    (dialect) => [`SIEM ${dialect}`, { format: 'siem', dialect }] satisfies [string, PaperExport],
  ),
];

describe.each(kinds)('an export as %s', (_name, wanted) => {
  it('verifies if its bytes are unchanged, whatever the length of the chunks in which it is read', async () => {
    const bytes = await exportOf(ledger, wanted);
    for (const partBytes of [1, 3, 4_096, bytes.length]) {
      const trust = { thumbprints: new Set([ledger.exportKey.kid]), jwks: [] };
      const report = await verifyExport(fileOf(bytes, partBytes), trust);
      expect(report).toMatchObject({ ok: true, trusted: true, problems: [] });
      expect(report.events).toBe(wanted.events?.length ?? 23);
    }
  });

  it('does not verify if a bit is changed, a byte is removed or added, or the export is incomplete', async () => {
    const bytes = await exportOf(ledger, wanted);
    const at = fc.nat(bytes.length - 1);
    const damage = fc.oneof(
      fc.tuple(at, fc.nat(7)).map(([index, bit]) => flipped(bytes, index, 1 << bit)),
      // Also changes bits near the end, where signed data and the signature's parameters are close
      // together.
      fc
        .tuple(fc.nat(2_000), fc.nat(7))
        .map(([back, bit]) => flipped(bytes, bytes.length - 1 - (back % bytes.length), 1 << bit)),
      at.map((index) => Buffer.concat([bytes.subarray(0, index), bytes.subarray(index + 1)])),
      fc
        .tuple(at, fc.nat(255))
        .map(([index, byte]) =>
          Buffer.concat([bytes.subarray(0, index), Buffer.from([byte]), bytes.subarray(index)]),
        ),
      at.map((length) => bytes.subarray(0, length)),
      fc.uint8Array({ minLength: 1, maxLength: 9 }).map((more) => Buffer.concat([bytes, more])),
    );
    await fc.assert(
      fc.asyncProperty(damage, async (damaged) => {
        if (damaged.equals(bytes)) return;
        const report = await verifyBytes(damaged, ledger);
        expect(report.ok && report.trusted).toBe(false);
        expect(report.problem).not.toBeNull();
      }),
      { numRuns: 250 },
    );
  });
});

it('verification fails if a bit is changed in any byte of the signature, even an unused encoding bit', async () => {
  const bytes = await exportOf(paperLedger(events.slice(0, 1), { keys: ledger }));
  expect((await verifyBytes(bytes, ledger)).ok).toBe(true);
  for (let index = bytes.lastIndexOf('"signature":'); index < bytes.length; index++) {
    const report = await verifyBytes(flipped(bytes, index, 1), ledger);
    expect(report.ok, `byte ${index}`).toBe(false);
  }
});

it('verification fails if a member is added to a signature, because the added member is not signed', async () => {
  const text = (await exportOf(ledger)).toString();
  const added = text.replace('"signature":{"alg":', '"signature":{"aaa":"approved","alg":');
  expect(added).not.toBe(text);
  expect((await verifyBytes(Buffer.from(added), ledger)).problem?.kind).toBe('broken_off');
});

it('verification fails if a bundle does not contain the heads of its chains', async () => {
  const report = await verifyBytes(await exportOf(ledger, { chains: [] }), ledger);
  expect(report.problem?.kind).toBe('head_mismatch');
});

function flipped(bytes: Buffer, index: number, mask: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[index] = (copy[index] ?? 0) ^ mask;
  return copy;
}

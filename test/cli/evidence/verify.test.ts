import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointOf, exportOf, paperLedger, proved } from '../../support/ledger/exported.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';

// Nothing here starts a server or a database: the command has only a folder.

const ledger = paperLedger(Array.from({ length: 9 }, () => anEvent({ chain_id: 'agent:7' })));
const kid = ledger.exportKey.kid;
let folder: PolicyFolder;
beforeAll(async () => {
  folder = policyFolder();
  const whole = await exportOf(ledger);
  const filters = { chain_id: 'agent:7' };
  folder.write('whole.json', whole);
  folder.write('part.json', await exportOf(ledger, { filters, events: [proved(ledger, 4)] }));
  const emptied = { filters: { agent_id: 'py' }, events: [] };
  folder.write('empty.json', await exportOf(ledger, emptied));
  folder.write('empty.csv', await exportOf(ledger, { ...emptied, format: 'csv' }));
  folder.write('rows.csv', await exportOf(ledger, { format: 'csv' }));
  folder.write('cut.json', whole.subarray(0, whole.length - 700));
  folder.write('changed.json', whole.toString().replace('customer:12', 'customer:13'));
  folder.write('kept.txt', checkpointOf(ledger, 5).note);
  const forged = paperLedger([anEvent(), ...ledger.rows.slice(1).map(() => anEvent())], {
    keys: ledger,
  });
  folder.write('rewritten.json', await exportOf(forged));
  folder.write('keys.json', JSON.stringify({ keys: [ledger.exportKey.publicJwk] }));
  const purpose = 'checkpoint';
  folder.write(
    'others.json',
    JSON.stringify({ keys: [{ ...ledger.exportKey.publicJwk, purpose }] }),
  );
  folder.write('none.json', '{"keys":[]}');
});
afterAll(() => folder?.remove());

const verify = (...args: readonly string[]) => folder.sallyport('evidence', 'verify', ...args);

describe('sallyport evidence verify', () => {
  it.each([
    [0, ['whole.json', '--trust-key', kid], 'VERIFIED'],
    [0, ['whole.json', '--jwks', 'keys.json', '--checkpoint', 'kept.txt'], 'are unchanged'],
    [0, ['part.json', '--trust-key', kid], '1 event in 1 chain, each recomputed'],
    [0, ['rows.csv', '--trust-key', kid], '9 events, signed as a whole'],
    [1, ['changed.json', '--trust-key', kid], '✗ content_mismatch at position 1, chain agent:7: '],
    [1, ['changed.json'], 'NOT VERIFIED'],
    [1, ['cut.json', '--trust-key', kid], '✗ broken_off: '],
    [1, ['keys.json', '--trust-key', kid], '✗ broken_off: '],
    [
      1,
      ['rewritten.json', '--trust-key', kid, '--checkpoint', 'kept.txt'],
      '✗ head_mismatch at position 5',
    ],
    [1, ['rows.csv', '--trust-key', kid, '--checkpoint', 'kept.txt'], '✗ not_comparable: '],
    [3, ['whole.json'], 'INTACT BUT UNTRUSTED'],
    [3, ['whole.json', '--trust-key', 'a'.repeat(43)], 'INTACT BUT UNTRUSTED'],
    [3, ['whole.json', '--jwks', 'others.json'], 'INTACT BUT UNTRUSTED'],
  ] as const)('exits with %i for the arguments %j', async (code, args, words) => {
    const ran = await verify(...args);
    expect(ran.out + ran.err).toContain(words);
    expect(ran.code).toBe(code);
  });

  it.each([
    [[], "Missing required argument 'file'"],
    [['whole.json', 'part.json'], 'Expected 1 argument but got 2'],
    [['missing.json'], 'Cannot read the file missing.json'],
    [['.'], 'not a file'],
    [['whole.json', '--trust-key', 'short'], 'A thumbprint has 43 characters'],
    [['whole.json', '--jwks', 'none.json'], 'not a JSON Web Key Set'],
    [['whole.json', '--jwks', 'missing.json'], 'cannot read missing.json'],
    [['whole.json', '--checkpoint', 'missing.txt'], 'cannot read missing.txt'],
    [['whole.json', '--trust', kid], "Unknown option '--trust'"],
  ])('exits with 2 for the invalid arguments %j', async (args, words) => {
    const ran = await verify(...args);
    expect(ran.err).toContain(words);
    expect([ran.code, ran.out]).toEqual([2, '']);
  });

  it.each(['empty.json', 'empty.csv'])(
    'reports that no event matched the filter of an empty export: %s',
    async (name) => {
      const ran = await verify(name, '--trust-key', kid);
      const lines = ran.out.trimEnd().split('\n');
      expect(lines).toContain('no event matched the filter: agent_id py');
      expect(lines.at(-1)).toBe('VERIFIED, BUT EMPTY: this export has no events');
      expect([ran.code, ran.out.includes('0 events')]).toEqual([0, false]);
      const untrusted = await verify(name);
      expect([untrusted.code, untrusted.out.includes('no event matched')]).toEqual([3, true]);
    },
  );

  it('reports the same findings as JSON with --json', async () => {
    const ran = await verify('changed.json', '--trust-key', kid, '--json');
    expect(ran.code).toBe(1);
    expect(JSON.parse(ran.out)).toMatchObject({
      ok: false,
      trusted: true,
      signed_by: kid,
      problem: { kind: 'content_mismatch', position: 1, chain_id: 'agent:7' },
    });
  });
});

it('a failed `sallyport evidence export` exits with 2 and leaves no file', async () => {
  const ran = await folder.sallyport(
    'evidence',
    'export',
    '-o',
    'x.json',
    '--url',
    'http://127.0.0.1:9',
  );
  expect([ran.code, ran.out]).toEqual([2, '']);
  expect((await folder.shell('ls x.json*')).code).not.toBe(0);
});

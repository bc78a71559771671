import { describe, expect, it } from 'vitest';
import { compareRules } from '../../../cli/network/compare-rules.ts';
import { iptables } from '../../../cli/network/iptables.ts';
import { families, iptablesFile, parseIptables } from '../../../cli/network/iptables-rules.ts';
import { nftables } from '../../../cli/network/nftables.ts';
import { nftablesFile, parseNftables } from '../../../cli/network/nftables-rules.ts';

const settings = { uid: 1337, port: 15_001, dnsPort: 15_053 };

/** The output of `nft list`: the file without its first two lines. */
const listing = nftablesFile(settings).split('\n').slice(2).join('\n');

describe('compareRules', () => {
  it.each([
    ['as nft 1.0 lists it', 'tcp flags 0x2 / 0x1,0x2,0x4,0x10'],
    ['as the file has it', 'tcp flags & 0x17 == 0x2'],
  ])('accepts the mask of TCP flags %s', (_, form) => {
    const listed = listing.replace('tcp flags & 0x17 == 0x2', form);
    expect(compareRules(nftables, parseNftables(listed), settings)).toEqual([]);
  });

  it.each(parsedLines(listing))('finds that nftables lacks line %i: %s', (at) => {
    const lines = listing.split('\n');
    const found = parseNftables(lines.toSpliced(at, 1).join('\n'));
    expect(compareRules(nftables, found, settings)).not.toEqual([]);
  });

  it('finds a flag of the table, such as dormant', () => {
    const dormant = listing.replace(
      'table inet sallyport {',
      'table inet sallyport {\n\tflags dormant',
    );
    expect(compareRules(nftables, parseNftables(dormant), settings)).toEqual([
      { code: 'network.rules_changed', detail: expect.stringContaining('flags dormant') },
    ]);
  });

  const saved = families.map(
    (family) => [family, savedForm(iptablesFile(family, settings, ''))] as const,
  );
  const parsed = (texts: typeof saved) =>
    new Map(texts.flatMap(([family, text]) => [...parseIptables(text, family)]));

  it('finds no difference in what iptables-save lists', () => {
    expect(compareRules(iptables, parsed(saved), settings)).toEqual([]);
  });

  it.each(
    saved.flatMap(([family, text]) =>
      ruleLines(text).map(([at, line]) => [family, at, line] as const),
    ),
  )('finds that iptables lacks, for %s, line %i: %s', (family, at) => {
    const changed = saved.map(
      ([one, text]) =>
        [one, one === family ? text.split('\n').toSpliced(at, 1).join('\n') : text] as const,
    );
    expect(compareRules(iptables, parsed(changed), settings)).not.toEqual([]);
  });
});

/** Returns the lines with rules and hooks, each with its index. */
function parsedLines(text: string): readonly (readonly [number, string])[] {
  return text
    .split('\n')
    .map((line, at) => [at, line.trim()] as const)
    .filter(([, line]) => line !== '' && !/^(table|chain|\})/.test(line));
}

function ruleLines(text: string): readonly (readonly [number, string])[] {
  return parsedLines(text).filter(([, line]) => line.startsWith('-A'));
}

/** Returns a file for `iptables-restore` in the form in which `iptables-save` prints the result. */
function savedForm(file: string): string {
  return file.replaceAll(/^-I (\S+) 1 /gm, '-A $1 ');
}

import { describe, expect, it } from 'vitest';
import { SyntheticNames } from '../../../proxy/dns/synthetic-names.ts';

const named = (index: number) => `n${index}.example`;

describe('the synthetic addresses of a name', () => {
  it('belong to that name only and stay the same', () => {
    const names = new SyntheticNames();
    const addresses = Array.from({ length: 1_000 }, (_, index) => names.addressesOf(named(index)));
    expect(new Set(addresses.flatMap(({ ipv4, ipv6 }) => [ipv4, ipv6])).size).toBe(2_000);
    addresses.forEach(({ ipv4, ipv6 }, index) => {
      expect(names.nameOf(ipv4)).toBe(named(index));
      expect(names.nameOf(ipv6)).toBe(named(index));
      expect(names.addressesOf(named(index))).toEqual({ ipv4, ipv6 });
    });
  });

  it('are in 198.18.0.0/15 and in one unique local IPv6 prefix, even for more than 65,536 names', () => {
    const names = new SyntheticNames({ namesMax: 70_000 });
    let last = names.addressesOf('first.example');
    for (let index = 0; index < 66_000; index++) last = names.addressesOf(named(index));
    expect(last.ipv4).toMatch(/^198\.19\./);
    expect(last.ipv6).toMatch(/^fd53:616c:6c79:706f:7274:0:1:|^fd53:616c:6c79:706f:7274::1:/);
    expect(names.nameOf(last.ipv6)).toBe(named(65_999));
    expect(names.nameOf(last.ipv4)).toBe(named(65_999));
  });

  it('are forgotten in the order of their last use if there are too many names', () => {
    const names = new SyntheticNames({ namesMax: 3 });
    const [a, b] = [names.addressesOf('a.example'), names.addressesOf('b.example')];
    names.addressesOf('c.example');
    expect(names.nameOf(a.ipv4)).toBe('a.example');
    const d = names.addressesOf('d.example');
    expect(names.nameOf(b.ipv4)).toBeUndefined();
    expect(names.nameOf(a.ipv6)).toBe('a.example');
    expect(d.ipv4).not.toBe(b.ipv4);
  });

  it('are assigned to another name only after all other addresses were used', () => {
    const names = new SyntheticNames({ namesMax: 2 });
    const { ipv4 } = names.addressesOf('old.example');
    for (let index = 0; index < 131_068; index++) {
      if (names.addressesOf(named(index)).ipv4 === ipv4) throw new Error(`reused at ${index}`);
    }
    expect(names.nameOf(ipv4)).toBeUndefined();
  });

  it.each([
    '198.20.0.1',
    '198.17.255.255',
    '10.0.0.1',
    'fd53:616c:6c79:706f:7274:1::1',
    '::1',
    'x',
  ])('do not include %s', (address) => {
    const names = new SyntheticNames();
    names.addressesOf('a.example');
    expect(names.nameOf(address)).toBeUndefined();
  });
});

import { describe, expect, it } from 'vitest';
import { addressRules } from '../../../shared/upstream/address-rules.ts';

const strict = addressRules([]);
const lenient = addressRules(['0.0.0.0/0', '::/0']);

/**
 * For each range: the addresses right before it, at its beginning, at its end and right after it,
 * with their address types.
 */
const edges: readonly (readonly [string, readonly string[]])[] = [
  [
    '169.254.169.254/32',
    ['169.254.169.253 link-local', '169.254.169.254 metadata', '169.254.169.255 link-local'],
  ],
  [
    '169.254.170.2/32',
    ['169.254.170.1 link-local', '169.254.170.2 metadata', '169.254.170.3 link-local'],
  ],
  [
    '100.100.100.200/32',
    ['100.100.100.199 private', '100.100.100.200 metadata', '100.100.100.201 private'],
  ],
  ['168.63.129.16/32', ['168.63.129.15 public', '168.63.129.16 metadata', '168.63.129.17 public']],
  ['192.0.0.192/32', ['192.0.0.191 reserved', '192.0.0.192 metadata', '192.0.0.193 reserved']],
  [
    'fd00:ec2::254/128',
    ['fd00:ec2::253 private', 'fd00:ec2::254 metadata', 'fd00:ec2::255 private'],
  ],
  ['fd00:ec2::23/128', ['fd00:ec2::22 private', 'fd00:ec2::23 metadata', 'fd00:ec2::24 private']],
  ['fd20:ce::254/128', ['fd20:ce::253 private', 'fd20:ce::254 metadata', 'fd20:ce::255 private']],
  [
    '169.254.0.0/16',
    [
      '169.253.255.255 public',
      '169.254.0.0 link-local',
      '169.254.255.255 link-local',
      '169.255.0.0 public',
    ],
  ],
  [
    'fe80::/10',
    [
      'fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      'fe80:: link-local',
      'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff link-local',
      'fec0:: private',
    ],
  ],
  [
    '127.0.0.0/8',
    [
      '126.255.255.255 public',
      '127.0.0.0 loopback',
      '127.255.255.255 loopback',
      '128.0.0.0 public',
    ],
  ],
  ['::1/128', [':: reserved', '::1 loopback', '::2 reserved']],
  [
    '10.0.0.0/8',
    ['9.255.255.255 public', '10.0.0.0 private', '10.255.255.255 private', '11.0.0.0 public'],
  ],
  [
    '172.16.0.0/12',
    ['172.15.255.255 public', '172.16.0.0 private', '172.31.255.255 private', '172.32.0.0 public'],
  ],
  [
    '192.168.0.0/16',
    [
      '192.167.255.255 public',
      '192.168.0.0 private',
      '192.168.255.255 private',
      '192.169.0.0 public',
    ],
  ],
  [
    '100.64.0.0/10',
    [
      '100.63.255.255 public',
      '100.64.0.0 private',
      '100.127.255.255 private',
      '100.128.0.0 public',
    ],
  ],
  [
    'fc00::/7',
    [
      'fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      'fc00:: private',
      'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff private',
      'fe00:: reserved',
    ],
  ],
  [
    'fec0::/10',
    [
      'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff link-local',
      'fec0:: private',
      'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff private',
      'ff00:: reserved',
    ],
  ],
  ['0.0.0.0/8', ['0.0.0.0 reserved', '0.255.255.255 reserved', '1.0.0.0 public']],
  [
    '192.0.0.0/24',
    ['191.255.255.255 public', '192.0.0.0 reserved', '192.0.0.255 reserved', '192.0.1.0 public'],
  ],
  [
    '192.0.2.0/24',
    ['192.0.1.255 public', '192.0.2.0 reserved', '192.0.2.255 reserved', '192.0.3.0 public'],
  ],
  [
    '192.88.99.0/24',
    [
      '192.88.98.255 public',
      '192.88.99.0 reserved',
      '192.88.99.255 reserved',
      '192.88.100.0 public',
    ],
  ],
  [
    '198.18.0.0/15',
    [
      '198.17.255.255 public',
      '198.18.0.0 reserved',
      '198.19.255.255 reserved',
      '198.20.0.0 public',
    ],
  ],
  [
    '198.51.100.0/24',
    [
      '198.51.99.255 public',
      '198.51.100.0 reserved',
      '198.51.100.255 reserved',
      '198.51.101.0 public',
    ],
  ],
  [
    '203.0.113.0/24',
    [
      '203.0.112.255 public',
      '203.0.113.0 reserved',
      '203.0.113.255 reserved',
      '203.0.114.0 public',
    ],
  ],
  ['224.0.0.0/3', ['223.255.255.255 public', '224.0.0.0 reserved', '255.255.255.255 reserved']],
  [
    '2001::/23',
    [
      '2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff public',
      '2001:: reserved',
      '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      '2001:200:: public',
    ],
  ],
  [
    '2001:db8::/32',
    [
      '2001:db7:ffff:ffff:ffff:ffff:ffff:ffff public',
      '2001:db8:: reserved',
      '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      '2001:db9:: public',
    ],
  ],
  [
    '3fff::/20',
    [
      '3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff public',
      '3fff:: reserved',
      '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      '3fff:1000:: public',
    ],
  ],
  [
    '64:ff9b::/96',
    [
      '64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      '64:ff9b:: reserved',
      '64:ff9b::ffff:ffff reserved',
      '64:ff9b::1:0:0 reserved',
    ],
  ],
  [
    '::ffff:0:0:0/96',
    [
      '::fffe:ffff:ffff:ffff reserved',
      '::ffff:0:0:0 reserved',
      '::ffff:0:ffff:ffff reserved',
      '::ffff:1:0:0 reserved',
    ],
  ],
  [
    '2002::/16',
    [
      '2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff public',
      '2002:: reserved',
      '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff reserved',
      '2003:: public',
    ],
  ],
  [
    '64:ff9b:1::/48',
    [
      '64:ff9b:0:ffff:ffff:ffff:ffff:ffff reserved',
      '64:ff9b:1:: reserved',
      '64:ff9b:1:ffff:ffff:ffff:ffff:ffff reserved',
      '64:ff9b:2:: reserved',
    ],
  ],
  ['::/96', [':: reserved', '::ffff:ffff reserved', '::1:0:0 reserved']],
];
const judged = edges.flatMap(([, addresses]) =>
  addresses.map((one) => one.split(' ') as [string, string]),
);

describe('the addresses at the edges of a range', () => {
  it.each(edges)('have the listed address types: %s', (_range, expected) => {
    const found = expected.map((one) => {
      const [address = ''] = one.split(' ');
      return `${address} ${strict.refusal(address) ?? 'public'}`;
    });
    expect(found).toEqual(expected);
  });

  it.each(judged)(
    'can be allowed by an exception, unless they are metadata or link-local addresses: %s (%s)',
    (address, kind) => {
      const always = ['metadata', 'link-local'].includes(kind) ? kind : undefined;
      expect(lenient.refusal(address)).toBe(always);
    },
  );
});

const hex = (octets: readonly number[]) =>
  Buffer.from(octets)
    .toString('hex')
    .replace(/^(.{4})/, '$1:');
const ipv4Edges = judged
  .filter(([address]) => address.includes('.'))
  .map(([address, kind]) => ({ octets: address.split('.').map(Number), address, kind }));

describe('an IPv4 address inside an IPv6 address', () => {
  it.each(ipv4Edges)(
    'has the same address type as the IPv4 address itself: $address, $kind',
    ({ octets, kind }) => {
      const inside = hex(octets);
      const routed = [`::ffff:${inside}`, `::ffff:0:${inside}`, `64:ff9b::${inside}`];
      for (const address of [...routed, `2002:${inside}::1`, `2606:4700::5efe:${inside}`]) {
        expect(strict.refusal(address) ?? 'public', address).toBe(kind);
      }
    },
  );

  it.each(ipv4Edges)(
    'has the type reserved if the IPv4 address is public, and otherwise the type of the IPv4 address: $address',
    (edge) => {
      const { octets, kind } = edge;
      const inside = hex(octets);
      const client = hex(octets.map((octet) => 255 - octet));
      const carriers = [`64:ff9b:1::${inside}`, `2001:0:${inside}::f7f7:f7f7`];
      for (const address of [...carriers, `2001:0:808:808::${client}`]) {
        expect(strict.refusal(address), address).toBe(kind === 'public' ? 'reserved' : kind);
      }
    },
  );
});

describe('an exception for one IP version', () => {
  it('does not apply to addresses of the other IP version', () => {
    expect(addressRules(['::/0']).refusal('10.0.0.1')).toBe('private');
    expect(addressRules(['::/0']).refusal('::ffff:10.0.0.1')).toBe('private');
    expect(addressRules(['0.0.0.0/0']).refusal('fd00::1')).toBe('private');
    expect(addressRules(['0.0.0.0/0']).refusal('::1')).toBe('loopback');
  });
});

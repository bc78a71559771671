import { describe, expect, it } from 'vitest';
import { cidr } from '../../../shared/base/address.ts';
import { addressRules } from '../../../shared/upstream/address-rules.ts';

const strict = addressRules([]);
const lenient = addressRules(['0.0.0.0/0', '::/0']);

describe('the address guard', () => {
  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700::1111',
    '64:ff9b::808:808',
  ])('accepts the public address %s', (address) => expect(strict.refusal(address)).toBeUndefined());

  it.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['64:ff9b::7f00:1', 'loopback'],
    ['2002:7f00:1::', 'loopback'],
    ['10.1.2.3', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['100.127.255.255', 'private'],
    ['fd12::1', 'private'],
    ['fec0::1', 'private'],
    ['0.0.0.0', 'reserved'],
    ['0.1.2.3', 'reserved'],
    ['224.0.0.1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['::', 'reserved'],
    ['::7f00:1', 'loopback'],
    ['::808:808', 'reserved'],
    ['2001:0:808:808::f5ff:fffe', 'private'],
    ['2001:0:a00:1::f7f7:f7f7', 'private'],
    ['2001:0:808:808::f7f7:f7f7', 'reserved'],
    ['64:ff9b:1::a00:1', 'private'],
    ['2606:4700::5efe:a00:1', 'private'],
    ['2606:4700::200:5efe:7f00:1', 'loopback'],
    ['::ffff:0:127.0.0.1', 'loopback'],
    ['ff02::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['2001::1', 'reserved'],
    ['64:ff9b:1::1', 'reserved'],
    ['4000::1', 'reserved'],
    ['not an address', 'reserved'],
  ])('refuses the address %s with the address type %s', (address, kind) => {
    expect(strict.refusal(address)).toBe(kind);
  });

  it.each([
    '169.254.169.254',
    '169.254.0.1',
    '::ffff:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    'fe80::1',
    'fe80::1%eth0',
    '::ffff:0:169.254.169.254',
    '::169.254.169.254',
    '2001:0:a9fe:a9fe::1',
    '2001:0:808:808::5601:5601',
    '64:ff9b:1::a9fe:a9fe',
    '64:ff9b:1:a9fe:a9:fe00::',
    '2606:4700::5efe:a9fe:a9fe',
    'fd00:ec2::254',
    '100.100.100.200',
    '168.63.129.16',
  ])('refuses the address %s even if every range is allowed', (address) => {
    expect(lenient.refusal(address)).toMatch(/metadata|link-local/);
  });

  it('allows only the ranges of its configured exceptions', () => {
    const rules = addressRules(['10.1.0.0/16', '::1/128']);
    expect(rules.refusal('10.1.2.3')).toBeUndefined();
    expect(rules.refusal('::1')).toBeUndefined();
    expect(rules.refusal('10.2.0.1')).toBe('private');
    expect(rules.refusal('127.0.0.1')).toBe('loopback');
    expect(lenient.refusal('192.168.0.1')).toBeUndefined();
  });
});

describe('an allowed range in CIDR form', () => {
  it.each([
    '10.0.0.0/33',
    '10.0.0.1/8',
    'fd00::1/8',
    '10.0.0.0/',
    'x',
    '10.0.0.0/8/8',
    '/8',
    '1.2.3.4/-1',
  ])('is refused with an example if it is malformed: %j', (text) =>
    expect(() => cidr(text)).toThrow(/is not a CIDR range such as/),
  );

  it('can consist of a single address', () => {
    expect(addressRules(['192.168.7.7']).refusal('192.168.7.7')).toBeUndefined();
  });
});

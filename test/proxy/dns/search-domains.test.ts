import { describe, expect, it } from 'vitest';
import { readSearchDomains, withoutSearchDomains } from '../../../proxy/dns/search-domains.ts';

const read = (text: string) => readSearchDomains(() => text);

describe('search domains', () => {
  it('are read from the last search or domain line', () => {
    const text =
      'nameserver 10.0.0.10\ndomain old.example\nsearch ns.svc.cluster.local  svc.cluster.local\n';
    expect(read(`${text}options ndots:5\n`)).toEqual(['ns.svc.cluster.local', 'svc.cluster.local']);
    expect(read('nameserver 10.0.0.10\n')).toEqual([]);
    expect(read('search A.Example. bad/name\n')).toEqual(['a.example']);
  });

  it('are empty if the file cannot be read', () => {
    const missing = () => {
      throw new Error('ENOENT');
    };
    expect(readSearchDomains(missing)).toEqual([]);
  });

  it('are removed from a name to which a resolver appended one', () => {
    const domains = ['ns.svc.cluster.local', 'svc.cluster.local', 'cluster.local'];
    expect(withoutSearchDomains('db.example.com.ns.svc.cluster.local', domains)).toEqual([
      'db.example.com',
      'db.example.com.ns',
      'db.example.com.ns.svc',
    ]);
    expect(withoutSearchDomains('db.example.com', domains)).toEqual([]);
    expect(withoutSearchDomains('cluster.local', domains)).toEqual([]);
  });
});

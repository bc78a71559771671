import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  forms,
  list,
  listCall,
  queries,
  transferCall,
} from '../../../support/disguises/query-and-form.ts';
import { expectDisguise, server } from './support.ts';

beforeAll(() => server.open());
afterAll(() => server.close());

describe('a bound call with a query', () => {
  it.each(queries)('disguised by %s is refused or recognised as the same action', (...disguise) =>
    expectDisguise(listCall, disguise),
  );

  it('is parsed with a semicolon as part of a value, not as a separator', async () => {
    const seen = await server.send(list('customer=cus_1;customer=cus_2'));
    if (seen === 'unparsed' || seen.kind !== 'action') throw new Error('no action');
    expect(seen.args).toEqual({ customer: 'cus_1;customer=cus_2' });
    expect(seen.build(seen.args).path).toBe('/v1/payments?customer=cus_1%3Bcustomer%3Dcus_2');
  });
});

describe('a bound call with a form', () => {
  it.each(forms)('disguised by %s is refused or recognised as the same action', (...disguise) =>
    expectDisguise(transferCall, disguise),
  );
});

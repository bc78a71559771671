import { afterAll, beforeAll, describe, it } from 'vitest';
import { methods, paths, refundCall } from '../../../support/disguises/path-and-method.ts';
import { expectDisguise, server } from './support.ts';

beforeAll(() => server.open());
afterAll(() => server.close());

describe('a bound call', () => {
  it.each([...paths, ...methods])(
    'disguised by %s is refused or recognised as the same action',
    (...disguise) => expectDisguise(refundCall, disguise),
  );
});

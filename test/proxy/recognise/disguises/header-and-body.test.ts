import { afterAll, beforeAll, describe, it } from 'vitest';
import { framing, headers, json } from '../../../support/disguises/header-and-body.ts';
import { refundCall } from '../../../support/disguises/path-and-method.ts';
import { expectDisguise, server } from './support.ts';

beforeAll(() => server.open());
afterAll(() => server.close());

describe('a bound JSON call', () => {
  it.each([...headers, ...framing, ...json])(
    'disguised by %s is refused or recognised as the same action',
    (...disguise) => expectDisguise(refundCall, disguise),
  );
});

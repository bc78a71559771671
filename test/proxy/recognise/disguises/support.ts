import { expect } from 'vitest';
import {
  type Disguise,
  disguisedBindings,
  disguisedHost,
} from '../../../support/disguises/disguise.ts';
import { codeOf, RecogniseServer, written } from '../support.ts';

export const server = new RecogniseServer(disguisedBindings(disguisedHost));

export async function expectDisguise(
  plainCall: Buffer,
  [, request, becomes]: Disguise,
): Promise<void> {
  const expected = await server.send(plainCall);
  if (expected === 'unparsed' || expected.kind !== 'action') throw new Error('the plain call');
  const seen = await server.send(request, {}, true);
  if (becomes !== 'same') {
    expect(codeOf(seen)).toBe(becomes);
    return;
  }
  if (seen === 'unparsed' || seen.kind !== 'action') throw new Error(JSON.stringify(seen));
  expect(seen.tool).toBe(expected.tool);
  expect(seen.resource).toBe(expected.resource);
  expect(seen.args).toEqual(expected.args);
  expect(sortedBody(seen.build(seen.args))).toEqual(sortedBody(expected.build(expected.args)));
}

/**
 * Returns the request with the members of its body sorted, because their order may differ. All other bytes
 * must be equal.
 */
function sortedBody(outgoing: Parameters<typeof written>[0]): unknown {
  const { body: text, ...rest } = written(outgoing) as { body: string | null };
  const isJson = outgoing.headers.includes('application/json');
  return { ...rest, body: isJson && text !== null ? JSON.parse(text) : text };
}

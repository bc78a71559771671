import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  messages,
  modernMessages,
  statelessCall,
  toolCall,
} from '../../../support/disguises/mcp-call.ts';
import { expectDisguise, server } from './support.ts';

beforeAll(() => server.open());
afterAll(() => server.close());

describe('an MCP tool call', () => {
  it.each(messages)(
    'disguised by %s is refused or recognised as the same action',
    async (...disguise) => {
      if (disguise[2] !== 'other') return expectDisguise(toolCall, disguise);
      // A different method is a different action, with a tool id that no tool can have.
      const seen = await server.send(disguise[1]);
      expect(seen).toMatchObject({ kind: 'action', tool: 'mcp.payments/Tools/Call' });
    },
  );

  it.each(modernMessages)(
    'without sessions, disguised by %s, is refused or recognised as the same action',
    (...disguise) => expectDisguise(statelessCall, disguise),
  );
});

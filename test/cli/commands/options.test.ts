import { describe, expect, it } from 'vitest';
import { duration } from '../../../cli/commands/options.ts';

describe('the parser of durations', () => {
  it.each([
    ['500ms', 500],
    ['90s', 90_000],
    ['30m', 1_800_000],
    ['1.5h', 5_400_000],
    ['7d', 604_800_000],
    ['0.001s', 1],
    ['999999d', 86_399_913_600_000],
    ['0.6ms', 1],
  ])('parses %s as %d ms', (text, ms) => expect(duration(text)).toBe(ms));

  it.each(['', '5', 'week', '0s', '0.4ms', '-1h', '+1h', '1w', '1y', '2 days', '1 h', '1H'])(
    'refuses %j',
    refused,
  );

  it.each(['.5h', '1.h', '1e3s', '1h30m', '1234567s', '1.2345h', ' 1h', '1h\n'])(
    'refuses the spelling %j',
    refused,
  );
});

function refused(text: string): void {
  expect(() => duration(text)).toThrow('Use a number and a unit (ms, s, m, h or d)');
}

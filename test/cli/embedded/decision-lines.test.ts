import { expect, it } from 'vitest';
import { printDecisions } from '../../../cli/embedded/decision-lines.ts';

const at = () => new Date('2026-11-22T10:11:12.345Z');
const esc = String.fromCharCode(27);

function printed(line: object, isTTY: boolean): string {
  let text = '';
  const output = { isTTY, write: (more: string) => (text += more) };
  printDecisions(output, at)({ decision: 'deny', reasonCode: 'policy.no_match', ...line });
  return text;
}

it('a decision line on a terminal has time, decision, tool, resource, reason and duration', () => {
  const line = { tool: 'payments.refund', resource: 'payment:p1', durationMs: 2.345 };
  const time = at().toTimeString().slice(0, 8);
  expect(printed(line, true)).toBe(
    `${time}  deny              payments.refund  payment:p1  policy.no_match  2.3 ms\n`,
  );
  expect(printed({ ...line, enforced: false }, true)).toContain('deny (observed)');
});

it('a decision line shows control characters of the tool and the resource as `?`', () => {
  const text = printed({ tool: `a${esc}[2J`, resource: 'b\r\nallow\u202e\u009b' }, true);
  expect(text).toContain('a?[2J  b??allow??');
  expect(text.split('\n')).toHaveLength(2);
});

it('a decision line is JSON without the resource if the output is not a terminal', () => {
  const text = printed({ tool: 'x', resource: '/reset/secret', durationMs: 1 }, false);
  expect(text).not.toContain('secret');
  expect(JSON.parse(text)).toMatchObject({ time: at().toISOString(), tool: 'x', duration_ms: 1 });
});

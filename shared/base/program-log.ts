import { pino } from 'pino';
import { gatherLines, type Log } from './log.ts';

/** The log of a program: lines of JSON on standard error. */
export function programLog(name: string, level: string): Log {
  return pino({ name, level }, gatherLines(pino.destination({ dest: 2, sync: true })));
}

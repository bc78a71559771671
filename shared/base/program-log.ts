import { pino } from 'pino';
import { bufferLines, type Log } from './log.ts';

/** The log of a program: lines of JSON on standard error. */
export function programLog(name: string, level: string): Log {
  return pino({ name, level }, bufferLines(pino.destination({ dest: 2, sync: true })));
}

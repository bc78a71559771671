/**
 * The allowed field values. `Error` is excluded, because pino prints an `Error` as `{}` under any
 * name except `err`.
 */
type LogValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly LogValue[]
  | { readonly [name: string]: LogValue };

/** `err` accepts any thrown value; every other field takes a plain value. */
type Fields<Given> = {
  readonly [Name in keyof Given]: Name extends 'err' ? unknown : LogValue;
};

type Write = <Given extends Fields<Given>>(fields: Given, message: string) => void;

/** The part of a pino logger that the code uses. */
export interface Log {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

interface LineSink {
  write(text: string): unknown;
}

const waitMs = 100;
const bytesMax = 32_768;
// A UTF-16 code unit of a JavaScript string takes at most three bytes in UTF-8.
const charBytesMax = 3;

/**
 * Returns a pino destination that batches lines: lines wait at most 100 ms and are written before
 * the process exits. Single writes would cost a system call each. Lines are buffered as bytes,
 * because strings that live this long are the most expensive for the garbage collector.
 */
export function bufferLines(sink: LineSink): { write(line: string): void } {
  const gathered = Buffer.alloc(bytesMax);
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const passOn = () => {
    clearTimeout(timer);
    timer = undefined;
    if (used === 0) return;
    const text = gathered.toString('utf8', 0, used);
    used = 0;
    sink.write(text);
  };
  process.once('exit', passOn);
  return {
    write(line) {
      const room = line.length * charBytesMax;
      if (room > gathered.length - used) passOn();
      if (room > gathered.length) {
        sink.write(line);
        return;
      }
      used += gathered.write(line, used);
      timer ??= setTimeout(passOn, waitMs).unref();
    },
  };
}

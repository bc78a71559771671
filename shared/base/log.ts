/** What a line may hold. An `Error` is none of these: pino would print it as `{}` under any name but `err`. */
type LogValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly LogValue[]
  | { readonly [name: string]: LogValue };

/** `err` takes whatever was thrown; every other field a plain value. */
type Fields<Given> = {
  readonly [Name in keyof Given]: Name extends 'err' ? unknown : LogValue;
};

type Write = <Given extends Fields<Given>>(fields: Given, message: string) => void;

/** The slice of a pino logger that the code relies on. */
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
// In UTF-8 a character of a JavaScript string takes three bytes at most.
const charBytesMax = 3;

/**
 * A destination for pino that passes lines on together: they wait for company, but never longer
 * than 100 ms, nor past the exit of the process. One by one each would cost a system call; and as
 * texts they would wait just long enough to cost the garbage collector most.
 */
export function gatherLines(sink: LineSink): { write(line: string): void } {
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

/** The slice of a pino logger that the code relies on. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

interface LineSink {
  write(text: string): unknown;
}

const waitMs = 100;
const charsMax = 32_768;

/**
 * A destination for pino that passes lines on together: they wait for company, but never longer
 * than 100 ms, nor past the exit of the process. One by one each would cost a system call.
 */
export function gatherLines(sink: LineSink): LineSink {
  let lines: string[] = [];
  let chars = 0;
  let timer: NodeJS.Timeout | undefined;
  const passOn = () => {
    clearTimeout(timer);
    timer = undefined;
    if (lines.length === 0) return;
    const text = lines.join('');
    lines = [];
    chars = 0;
    sink.write(text);
  };
  process.once('exit', passOn);
  return {
    write(line) {
      lines.push(line);
      chars += line.length;
      if (chars >= charsMax) passOn();
      else timer ??= setTimeout(passOn, waitMs).unref();
    },
  };
}

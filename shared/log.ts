/** The slice of a pino logger that the code relies on. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** For pino's destination: lines wait for company, but never longer than this, nor past the exit. */
export const logBuffer = { minLength: 32_768, maxWrite: 65_536, periodicFlush: 100 };

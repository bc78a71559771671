/** What an exception was and where it came from, for the log. */
interface Cause {
  readonly error: string;
  readonly at: readonly string[];
}

const framesMax = 8;

/**
 * The kind of an exception and its frames, never its message: parsers and engines quote in it what
 * they were given, which here are the arguments of a call.
 */
export function causeOf(thrown: unknown): Cause {
  if (!(thrown instanceof Error)) return { error: typeof thrown, at: [] };
  const frames = (thrown.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line));
  return { error: thrown.name, at: frames.slice(0, framesMax).map((line) => line.trim()) };
}

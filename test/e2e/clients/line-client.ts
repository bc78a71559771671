import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A client program that prints one line for each line of its input. */
export interface LineClient {
  ask(...fields: readonly string[]): Promise<string>;
  /** Closes the program's input; resolves with the exit code. */
  end(): Promise<number | null>;
}

/** Starts a program, whose responses are awaited one at a time. Output on stderr fails the call. */
export function startLineClient(
  [file = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): LineClient {
  const child = spawn(file, args, {
    env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1', ...env },
  });
  let complaints = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  child.stdin.on('error', () => {});
  const closed = once(child, 'close') as Promise<[number | null]>;
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async ask(...fields) {
      child.stdin.write(`${fields.join('\t')}\n`);
      const { value, done } = await answers.next();
      if (done === true) throw new Error(`${args.join(' ')} ended:\n${complaints}`);
      return String(value);
    },
    async end() {
      child.stdin.end();
      const [code] = await closed;
      if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${complaints}`);
      return code;
    },
  };
}

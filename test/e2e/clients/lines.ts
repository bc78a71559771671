import { createInterface } from 'node:readline';

/** Answers each line of the standard input, in order, with one line of output. */
export async function answerLines(answer: (fields: string[]) => Promise<string>): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${await answer(line.split('\t'))}\n`);
  }
}

export interface HttpAnswer {
  readonly text: string;
  readonly status: number;
  readonly location: string | null | undefined;
}

/** Reads lines `METHOD URL BODY` and prints lines `BODY STATUS LOCATION`, separated by tabs. */
export function answerCalls(
  call: (method: string, url: string, body: string | undefined) => Promise<HttpAnswer>,
): Promise<void> {
  return answerLines(async ([method = '', url = '', body = '']) => {
    const { text, status, location } = await call(method, url, body === '' ? undefined : body);
    return `${text}\t${status}\t${location ?? ''}`;
  });
}

export const json = { 'content-type': 'application/json' };

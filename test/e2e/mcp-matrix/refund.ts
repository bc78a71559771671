import fs from 'node:fs';

/** Reads the arguments `http PORT FILE` or `stdio FILE`. */
export function readArguments(): { readonly port: number | undefined; readonly path: string } {
  const [transport, ...rest] = process.argv.slice(2);
  const path = rest.at(-1);
  if (path === undefined) throw new Error('Usage: http PORT FILE | stdio FILE');
  return { port: transport === 'http' ? Number(rest[0]) : undefined, path };
}

/** Performs a refund, and appends a line to the file. */
export function refund(path: string, amount: number) {
  fs.appendFileSync(path, `${amount}\n`);
  return { content: [{ type: 'text' as const, text: `refunded ${amount}` }] };
}

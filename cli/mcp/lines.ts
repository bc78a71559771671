/** Beyond this a message is taken for something else than a message. */
const lineBytesMax = 64 * 1024 ** 2;

/**
 * The lines of a byte stream, without their ends. Only LF ends one: JSON text may hold what other
 * readers take for line ends (U+2028). Throws for a line that is too long.
 */
export async function* linesOf(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of stream) {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...begun, chunk.subarray(from, end)]);
      begun = [];
      begunBytes = 0;
      from = end + 1;
      if (!isBlank(line)) yield line;
    }
    begun.push(chunk.subarray(from));
    begunBytes += chunk.length - from;
    if (begunBytes > lineBytesMax) {
      throw new Error(`a line is longer than ${lineBytesMax} bytes: that is no MCP message`);
    }
  }
  const rest = Buffer.concat(begun);
  if (!isBlank(rest)) yield rest;
}

function isBlank(line: Buffer): boolean {
  return line.length === 0 || (line.length === 1 && line[0] === 13);
}

/** The `data` of each event of a `text/event-stream`, on one line: JSON needs no more than that. */
export async function* eventsOf(stream: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of textLines(stream)) {
    if (line === '') {
      if (data.length > 0) yield data.join(' ');
      data = [];
    } else if (line.startsWith('data:')) {
      data.push(line.slice(5).replace(/^ /, ''));
    }
  }
}

/** Lines that end in LF or CRLF, as the sidecar and the endpoint write them. */
async function* textLines(stream: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  for await (const chunk of stream) {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...begun, chunk.subarray(from, end)]).toString('utf8');
      begun = [];
      from = end + 1;
      yield line.endsWith('\r') ? line.slice(0, -1) : line;
    }
    begun.push(chunk.subarray(from));
  }
}

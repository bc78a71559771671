export interface ServerMessage {
  /** Where reading resumes; the last one that was named. */
  readonly id: string;
  /** Empty where only the id moved. */
  readonly data: string;
}

/** Far more than the longest event takes. */
const blockCharactersMax = 16_777_216;

/** Reads server-sent messages (HTML, 9.2.6) as the control plane writes them. */
export async function* serverMessages(
  parts: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerMessage> {
  const decoder = new TextDecoder();
  let rest = '';
  let id = '';
  for await (const part of parts) {
    const blocks = (rest + decoder.decode(part, { stream: true })).split('\n\n');
    rest = blocks.pop() ?? '';
    if (rest.length > blockCharactersMax) throw new Error('a message of the stream has no end');
    for (const block of blocks) {
      const lines = block.split('\n');
      id = valuesOf(lines, 'id: ').at(-1) ?? id;
      yield { id, data: valuesOf(lines, 'data: ').join('\n') };
    }
  }
}

function valuesOf(lines: readonly string[], field: string): readonly string[] {
  return lines.filter((line) => line.startsWith(field)).map((line) => line.slice(field.length));
}

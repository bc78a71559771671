import { once } from 'node:events';
import type { Program } from '../../support/programs/processes.ts';

interface Heap {
  /** Returns all live objects, including strings, after a full garbage collection. */
  snapshot(): Promise<Buffer>;
  close(): void;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly chunk?: string };
}

/** Connects to the inspector of a program that was started with `--inspect`. */
export async function heapOf(program: Program): Promise<Heap> {
  const address = /ws:\/\/\S+/.exec(program.output())?.[0];
  if (address === undefined) throw new Error('the program has no inspector');
  const socket = new WebSocket(address);
  await once(socket, 'open');
  let lastId = 0;
  const chunks: string[] = [];
  const waiting = new Map<number, () => void>();
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params } = JSON.parse(String(data)) as Message;
    if (method === 'HeapProfiler.addHeapSnapshotChunk') chunks.push(params?.chunk ?? '');
    if (id !== undefined) waiting.get(id)?.();
  });
  const ask = (method: string) =>
    new Promise<void>((resolve) => {
      lastId++;
      waiting.set(lastId, resolve);
      socket.send(JSON.stringify({ id: lastId, method }));
    });
  return {
    async snapshot() {
      chunks.length = 0;
      await ask('HeapProfiler.collectGarbage');
      await ask('HeapProfiler.takeHeapSnapshot');
      return Buffer.from(chunks.join(''));
    },
    close: () => socket.close(),
  };
}
